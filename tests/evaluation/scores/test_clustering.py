"""NMI, AMI and pair-counting F1: loops, scikit-learn, closed forms, symmetries and edge cases."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from sklearn.metrics import adjusted_mutual_info_score, normalized_mutual_info_score

import unseen.evaluation as evaluation
from tests.helpers.ranking_loops import TOLERANCE, random_table
from unseen.core.errors import BatchError
from unseen.evaluation.exact.directions import read_directions
from unseen.evaluation.scores.clustering import (
    AMI,
    F1,
    NMI,
    SuperF1,
    SuperNMI,
    check_super_classes,
    count_sizes,
    expected_information,
    mutual_information,
    pair_counting_f1,
)

CLASSES = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2, 3])


def entropy(partition):
    return -sum(share * math.log(share) for share in (partition.count(x) / len(partition) for x in set(partition)))


def nmi_by_loops(clusters, classes):
    one, two, both = entropy(clusters), entropy(classes), entropy(list(zip(clusters, classes, strict=True)))
    return 2 * (one + two - both) / (one + two) if one + two else 1.0


def f1_by_loops(clusters, classes):
    pairs = list(itertools.combinations(range(len(classes)), 2))
    together = [pair for pair in pairs if clusters[pair[0]] == clusters[pair[1]]]
    alike = [pair for pair in pairs if classes[pair[0]] == classes[pair[1]]]
    right = len(set(together) & set(alike))
    if right == 0:
        return 0.0
    precision, recall = right / len(together), right / len(alike)
    return 2 * precision * recall / (precision + recall)


LOOPS = {
    "nmi": nmi_by_loops,
    "ami": lambda clusters, classes: float(adjusted_mutual_info_score(classes, clusters)),
    "f1": f1_by_loops,
    "nmi_super": nmi_by_loops,
    "f1_super": f1_by_loops,
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_score_equals_its_loop_reference_on_200_random_tables_with_ties(name):
    for number in range(200):
        rows, labels = random_table(number)
        classes = [label // 3 for label in labels] if name.endswith("_super") else labels
        clusters = evaluation.KMeans()(read_directions(np.array(rows)), len(set(classes))).assignment
        expected = LOOPS[name](clusters.tolist(), classes)
        value = evaluation.evaluate(np.array(rows), labels, scores=name, bootstrap=None, super_labels=classes)[name]
        assert value == pytest.approx(expected, abs=TOLERANCE), f"table {number}"


@pytest.mark.parametrize("name", LOOPS)
def test_a_collapsed_model_has_one_cluster(name):
    labels = np.repeat(np.arange(6), 5)
    classes = labels // 3 if name.endswith("_super") else labels
    value = evaluation.evaluate(np.ones((30, 4)), labels, scores=name, super_labels=labels // 3)[name]
    assert value == pytest.approx(LOOPS[name]([0] * 30, classes.tolist()), abs=TOLERANCE)


def partitions(number):
    generator = np.random.default_rng(number)
    count = int(generator.integers(2, 60))
    return [generator.integers(generator.integers(1, 12), size=count) for _ in range(2)]


@pytest.mark.parametrize("number", range(100))
def test_the_scores_are_those_of_scikit_learn_and_of_loops_over_pairs(number):
    clusters, classes = partitions(number)
    # scikit-learn's logarithms of factorials are good to about 1e-13 here.
    assert NMI()(clusters, classes) == pytest.approx(normalized_mutual_info_score(classes, clusters), abs=1e-12)
    assert AMI()(clusters, classes) == pytest.approx(adjusted_mutual_info_score(classes, clusters), abs=1e-10)
    assert F1()(clusters, classes) == pytest.approx(f1_by_loops(clusters.tolist(), classes.tolist()), abs=1e-15)


@pytest.mark.parametrize("number", range(20))
def test_the_order_of_the_points_and_the_numbering_change_no_bit(number):
    clusters, classes = partitions(number)
    generator = np.random.default_rng(number)
    order, names = generator.permutation(len(classes)), generator.permutation(12)
    for score in (NMI(), AMI(), F1()):
        before = score(clusters, classes)
        assert score(clusters[order], classes[order]) == before
        assert score(names[clusters], 10**15 - 7 * names[classes]) == before


def test_the_expected_information_is_the_mean_over_all_ways_to_deal_the_points():
    clusters, classes = np.array([0, 0, 0, 1, 1, 2]), np.array([0, 0, 1, 1, 1, 2])
    dealt = [
        mutual_information(count_sizes(clusters[list(order)], classes)) for order in itertools.permutations(range(6))
    ]
    expected = math.fsum(dealt) / len(dealt)
    assert expected_information(count_sizes(clusters, classes)) == pytest.approx(expected, rel=1e-13)


def test_the_expected_information_keeps_its_digits_for_many_points():
    # Exact chances as fractions.
    clusters, classes = np.arange(1000) % 7, np.arange(1000) // 143
    sizes = count_sizes(clusters, classes)
    terms = []
    for a, b in itertools.product(sizes.clusters.tolist(), sizes.classes.tolist()):
        ways = math.comb(1000, b)
        terms += [
            float(Fraction(math.comb(a, n) * math.comb(1000 - a, b - n), ways)) * n / 1000 * math.log(1000 * n / a / b)
            for n in range(max(1, a + b - 1000), min(a, b) + 1)
        ]
    assert expected_information(sizes) == pytest.approx(math.fsum(terms), rel=1e-11)


def test_the_classes_themselves_are_a_perfect_clustering_under_any_names():
    renamed = np.array([7, 3, 9, 1])[CLASSES]
    assert NMI()(renamed, CLASSES) == AMI()(renamed, CLASSES) == F1()(renamed, CLASSES) == 1.0


def test_all_scores_are_symmetric():
    clusters = np.random.default_rng(0).integers(4, size=10)
    for score in (NMI(), AMI(), F1()):
        assert score(clusters, CLASSES) == pytest.approx(score(CLASSES, clusters), abs=1e-15)


def test_one_big_cluster_has_no_information_and_the_f1_of_the_base_rate():
    one = np.zeros(10, dtype=np.int64)
    rate = (3 + 1 + 6 + 0) / 45
    assert NMI()(one, CLASSES) == 0.0
    assert AMI()(one, CLASSES) == pytest.approx(0.0, abs=1e-15)
    assert F1()(one, CLASSES) == pytest.approx(2 * rate / (1 + rate), abs=1e-15)


def test_singletons_only_have_no_pair_and_say_nothing_beyond_chance():
    alone = np.arange(10)
    assert F1()(alone, CLASSES) == 0.0
    assert F1()(alone, alone) == 0.0
    assert AMI()(alone, CLASSES) == pytest.approx(0.0, abs=1e-14)
    assert NMI()(alone, alone) == AMI()(alone, alone) == 1.0


@pytest.mark.parametrize("count", [1, 5])
def test_one_class_in_one_cluster_is_perfect(count):
    one = np.zeros(count, dtype=np.int64)
    assert NMI()(one, one) == AMI()(one, one) == 1.0
    assert F1()(one, one) == (1.0 if count > 1 else 0.0)


def test_independent_partitions_share_no_information():
    first, second = np.divmod(np.arange(100), 10)
    assert NMI()(first, second) == pytest.approx(0.0, abs=1e-14)
    assert AMI()(first, second) < 0


def test_random_partitions_have_ami_zero_and_nmi_well_above():
    generator = np.random.default_rng(1)
    drawn = [(generator.integers(40, size=200), generator.integers(40, size=200)) for _ in range(50)]
    adjusted = [AMI()(*pair) for pair in drawn]
    # Four standard errors of the mean.
    assert np.mean(adjusted) == pytest.approx(0.0, abs=4 * np.std(adjusted) / np.sqrt(50))
    assert min(NMI()(*pair) for pair in drawn) > 0.4


def test_pairs_of_large_classes_are_counted_exactly():
    count = 300_000
    clusters = np.zeros(count, dtype=np.int64)
    classes = clusters.copy()
    classes[0] = 1
    both, every = (count - 1) * (count - 2) // 2, count * (count - 1) // 2
    assert pair_counting_f1(clusters, classes) == 2 * both / (every + both)


def test_super_scores_are_the_scores_of_the_super_classes():
    clusters, super_classes = np.random.default_rng(2).integers(3, size=10), CLASSES // 2
    assert SuperNMI()(clusters, super_classes) == NMI()(clusters, super_classes)
    assert SuperF1()(clusters, super_classes) == F1()(clusters, super_classes)
    assert SuperNMI.basis == SuperF1.basis == "super_clusters"


def test_super_classes_are_unions_of_classes():
    check_super_classes(CLASSES, CLASSES // 2)
    check_super_classes(CLASSES, np.zeros(10, dtype=np.int64))
    with pytest.raises(BatchError, match="each class must lie in one super-class; got '1 more"):
        check_super_classes(CLASSES, np.arange(10) // 2 // 3)
    with pytest.raises(BatchError, match="one super-label per label; got '10 labels, 9 super-labels'"):
        check_super_classes(CLASSES, np.zeros(9, dtype=np.int64))
