"""What every registered score must do; a score is under this contract as soon as it is registered."""

import itertools
import math

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_mutual_info_score

import unseen.evaluation as evaluation
from unseen.core.config import build, record_of
from unseen.core.registry import score
from unseen.evaluation.exact.directions import read_directions

KS = (1, 2, 3, 5)
# Sums of at most a few hundred terms of size one in float64.
TOLERANCE = 1e-12


# Slow references: one ranking at a time. `hits` says for each place of the ranking whether a positive stands there.


def precision_sum(hits, places):
    total, found = 0.0, 0
    for place, hit in enumerate(hits[:places], start=1):
        if hit:
            found += 1
            total += found / place
    return total


def over(total, count):
    return total / count if count else 0.0


def gain(hits, places):
    return sum(1 / math.log2(place + 1) for place, hit in enumerate(hits[:places], start=1) if hit)


def normalised_gain(hits, k):
    best = gain(sorted(hits, reverse=True), k or len(hits))
    return gain(hits, k or len(hits)) / best if best else 0.0


RANKING_REFERENCES = {
    "recall": lambda hits, k: float(any(hits[:k])),
    "precision": lambda hits, k: sum(hits[:k]) / k,
    "r_precision": lambda hits, k: over(sum(hits[: sum(hits)]), sum(hits)),
    "map@r": lambda hits, k: over(precision_sum(hits, sum(hits)), sum(hits)),
    "map@c": lambda hits, k: precision_sum(hits, sum(hits) + 1) / (sum(hits) + 1),
    "map@c_printed": lambda hits, k: sum(hits[: sum(hits) + 1]) / (sum(hits) + 1),
    "map@1000": lambda hits, k: precision_sum(hits, 1000) / (sum(hits) + 1),
    "map@1000_printed": lambda hits, k: sum(hits[:1000]) / 1000,
    "ndcg": normalised_gain,
    "mrr": lambda hits, k: 1 / (hits.index(True) + 1) if any(hits) else 0.0,
    "ap": lambda hits, k: over(precision_sum(hits, len(hits)), sum(hits)),
}


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


CLUSTER_REFERENCES = {
    "nmi": nmi_by_loops,
    "ami": lambda clusters, classes: float(adjusted_mutual_info_score(classes, clusters)),
    "f1": f1_by_loops,
    "nmi_super": nmi_by_loops,
    "f1_super": f1_by_loops,
}
# Scores from singular values, class sums and all pairs have their loops in tests/evaluation.
COUNTED = [name for name in score.names() if score[name].basis in ("ranks", "clusters", "super_clusters")]


def super_of(labels):
    """A coarser label for each label, or for its name "class N"."""
    return [int(str(label).rpartition(" ")[2]) // 3 for label in labels]


def coarser(name, labels):
    return {"super_labels": super_of(labels)} if score[name].basis == "super_clusters" else {}


def cosine(one, two):
    length = math.sqrt(sum(x * x for x in one)) * math.sqrt(sum(x * x for x in two))
    return sum(x * y for x, y in zip(one, two, strict=True)) / length if length else 0.0


def orders_of(rows, labels, query):
    """Every order of hits that the tied groups of one query allow; all are equally likely."""
    others = sorted((-cosine(rows[query], rows[other]), other) for other in range(len(rows)) if other != query)
    groups = []
    for distance, other in others:
        # Cosines of these tables are equal or differ by far more than this.
        if groups and abs(groups[-1][0] - distance) < 1e-9:
            groups[-1][1].append(labels[other] == labels[query])
        else:
            groups.append((distance, [labels[other] == labels[query]]))
    choices = [
        [
            tuple(place in chosen for place in range(len(group)))
            for chosen in itertools.combinations(range(len(group)), sum(group))
        ]
        for _, group in groups
    ]
    return [list(itertools.chain(*order)) for order in itertools.product(*choices)]


def by_loops(name, k, rows, labels):
    if name in CLUSTER_REFERENCES:
        labels = super_of(labels) if score[name].basis == "super_clusters" else labels
        clusters = evaluation.KMeans()(read_directions(np.array(rows)), len(set(labels))).assignment
        return CLUSTER_REFERENCES[name](clusters.tolist(), labels)
    means = []
    for query in range(len(rows)):
        orders = orders_of(rows, labels, query)
        means.append(sum(RANKING_REFERENCES[name](order, k) for order in orders) / len(orders))
    return sum(means) / len(means)


def random_table(number):
    """A small table, mostly with ties: copies, opposite and zero vectors, or all rows apart, or one point."""
    generator = np.random.default_rng(number)
    count = int(generator.integers(1, 10))
    labels = generator.integers(generator.integers(1, 5), size=count).tolist()
    kind = number % 4
    if kind == 0:
        rows = generator.integers(-1, 2, size=(count, 3)).astype(float)
    elif kind == 1:
        rows = generator.normal(size=(4, 3))[generator.integers(4, size=count)]
    elif kind == 2:
        rows = generator.normal(size=(count, 4))
    else:
        rows = np.where(generator.random((count, 1)) < 0.7, np.ones((count, 2)), generator.normal(size=(count, 2)))
    return rows.tolist(), labels


def clustered(count=120, classes=12, width=8, seed=0):
    generator = np.random.default_rng(seed)
    labels = generator.integers(classes, size=count)
    return (generator.normal(size=(classes, width))[labels] + generator.normal(size=(count, width))), labels


@pytest.fixture(params=score.names())
def name(request):
    return request.param


def value_of(name, rows, labels):
    return dict(
        evaluation.evaluate(np.asarray(rows), labels, scores=name, ks=KS, bootstrap=None, **coarser(name, labels))
    )


@pytest.mark.parametrize("name", COUNTED)
def test_a_score_equals_its_loop_reference_on_200_random_tables_with_ties(name):
    for number in range(200):
        rows, labels = random_table(number)
        found = value_of(name, rows, labels)
        for full_name, value in found.items():
            k = int(full_name.rpartition("@")[2]) if full_name != name else 0
            expected = by_loops(name, k, rows, labels)
            assert value == pytest.approx(expected, abs=TOLERANCE), f"table {number}, {full_name}"


@pytest.mark.parametrize("name", COUNTED)
def test_a_collapsed_model_scores_at_chance(name):
    # Chance for a ranking: the mean over many random orders. For clusters: one cluster holds everything.
    labels = np.repeat(np.arange(6), 5)
    found = value_of(name, np.ones((30, 4)), labels)
    if name in CLUSTER_REFERENCES:
        classes = super_of(labels) if score[name].basis == "super_clusters" else labels.tolist()
        assert found[name] == pytest.approx(CLUSTER_REFERENCES[name]([0] * 30, classes), abs=TOLERANCE)
        return
    generator = np.random.default_rng(0)
    hits = np.repeat([True, False], [4, 25])
    orders = [generator.permutation(hits).tolist() for _ in range(4000)]
    for full_name, value in found.items():
        k = int(full_name.rpartition("@")[2]) if full_name != name else 0
        drawn = [RANKING_REFERENCES[name](order, k) for order in orders]
        # Four standard errors of the mean over the orders drawn.
        assert value == pytest.approx(np.mean(drawn), abs=4 * np.std(drawn) / math.sqrt(len(drawn)) + TOLERANCE)


@pytest.mark.parametrize("name", COUNTED)
def test_random_embeddings_score_like_shuffled_labels(name):
    rows, _ = clustered(count=300, seed=3)
    generator = np.random.default_rng(1)
    labels = np.repeat(np.arange(20), 15)
    found = value_of(name, generator.normal(size=(300, 16)), labels)
    shuffled = [value_of(name, rows, generator.permutation(labels)) for _ in range(5)]
    for full_name, value in found.items():
        # 300 queries: the standard error of a share is at most 0.03.
        assert value == pytest.approx(np.mean([other[full_name] for other in shuffled]), abs=0.1)


def test_the_order_of_the_rows_and_the_names_of_the_classes_do_not_matter(name):
    rows, labels = clustered()
    rows[:20] = rows[20:40]  # copies, some of them across classes
    order = np.random.default_rng(5).permutation(len(rows))
    # Another order of the same super-classes too.
    renamed = np.array([f"class {(label + 3) % 12}" for label in labels])
    before = value_of(name, rows, labels)
    for full_name, value in value_of(name, rows[order], renamed[order]).items():
        assert value == before[full_name]


def test_rotation_length_and_type_of_the_embeddings_do_not_matter(name):
    rows, labels = clustered()
    lengths = np.random.default_rng(2).uniform(0.1, 10, size=(len(rows), 1))
    rotation = np.linalg.qr(np.random.default_rng(3).normal(size=(8, 8)))[0]
    before = value_of(name, rows, labels)
    as_tensor = evaluation.evaluate(
        torch.tensor(rows), torch.tensor(labels), scores=name, ks=KS, **coarser(name, labels)
    )
    assert dict(as_tensor) == before
    if name not in CLUSTER_REFERENCES:  # a rotated table may start k-means elsewhere
        # Ranks are exact; what is computed from the directions themselves knows them to 2^-26.
        tolerance = 1e-9 if name in RANKING_REFERENCES else 1e-6
        for full_name, value in value_of(name, rows @ rotation * lengths, labels).items():
            assert value == pytest.approx(before[full_name], abs=tolerance)


def test_threads_and_memory_do_not_matter(name):
    rows, labels = clustered(count=600, width=64)
    threads = torch.get_num_threads()
    try:
        found = []
        for count, memory in ((1, 64), (2, 64), (2, 1)):
            torch.set_num_threads(count)
            settings = {"scores": name, "ks": KS, "memory": memory} | coarser(name, labels)
            found.append(evaluation.evaluate(rows, labels, **settings))
    finally:
        torch.set_num_threads(threads)
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize(
    ("rows", "labels"),
    [
        ([[1.0, 0.0]], [0]),
        ([[0.0, 0.0]], [0]),
        ([[1.0, 0.0], [0.0, 1.0]], [0, 0]),
        ([[1.0, 0.0], [0.0, 1.0]], [0, 1]),
        (np.eye(6).tolist(), [0] * 6),
        (np.eye(6).tolist(), list(range(6))),
        (np.zeros((6, 3)).tolist(), [0, 0, 1, 1, 2, 2]),
        ([[1e300, 0.0], [0.0, 1e-300], [1e-320, 0.0]], [0, 0, 1]),
    ],
    ids=["one", "one zero", "pair", "strangers", "one class", "all distinct", "all zero", "extreme lengths"],
)
def test_degenerate_tables_are_scored_within_the_bounds(name, rows, labels):
    found = evaluation.evaluate(np.array(rows), labels, scores=name, ks=KS, **coarser(name, labels))
    low, high = score[name].bounds
    assert all(low <= value <= high for value in found.values())
    assert found.queries == found.gallery == len(labels)
    assert found.queries_without_positives == sum(labels.count(label) == 1 for label in labels)


def test_a_score_states_its_facts_and_survives_its_record(name):
    component = score[name]
    assert component.__doc__
    assert isinstance(component.higher_is_better, bool)
    assert component.basis in ("ranks", "clusters", "super_clusters", "structure", "spectrum", "curves")
    built = build(score, name)
    assert len(built.definition) > 20
    assert record_of(score, build(score, record_of(score, built))) == record_of(score, built)
    rows, labels = clustered()
    found = evaluation.evaluate(rows, labels, scores=name, **coarser(name, labels))
    assert set(found.definitions) == set(found) == set(found.intervals)
    words = {"clusters": "seed 0", "super_clusters": "seed 0", "ranks": "ties"}.get(component.basis, "")
    assert all(words in definition for definition in found.definitions.values())
