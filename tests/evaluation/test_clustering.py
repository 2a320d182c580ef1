"""NMI and pair-counting F1: closed forms, symmetries and edge cases of SPEC 4.3 and 4.4."""

import numpy as np
import pytest

from unseen.evaluation.clustering import F1, NMI, pair_counting_f1

CLASSES = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2, 3])


def test_the_classes_themselves_are_a_perfect_clustering_under_any_names():
    renamed = np.array([7, 3, 9, 1])[CLASSES]
    assert NMI()(renamed, CLASSES) == pytest.approx(1.0, abs=1e-12)
    assert F1()(renamed, CLASSES) == 1.0


def test_both_scores_are_symmetric():
    clusters = np.random.default_rng(0).integers(4, size=10)
    assert NMI()(clusters, CLASSES) == pytest.approx(NMI()(CLASSES, clusters), abs=1e-12)
    assert F1()(clusters, CLASSES) == F1()(CLASSES, clusters)


def test_one_big_cluster_has_no_information_and_the_f1_of_the_base_rate():
    one = np.zeros(10, dtype=np.int64)
    rate = (3 + 1 + 6 + 0) / 45
    assert NMI()(one, CLASSES) == 0.0
    assert F1()(one, CLASSES) == pytest.approx(2 * rate / (1 + rate), abs=1e-15)


def test_singletons_only_have_no_pair_and_f1_0():
    alone = np.arange(10)
    assert F1()(alone, CLASSES) == 0.0
    assert F1()(alone, alone) == 0.0
    assert NMI()(alone, alone) == pytest.approx(1.0, abs=1e-12)


def test_one_class_in_one_cluster_is_perfect():
    one = np.zeros(5, dtype=np.int64)
    assert NMI()(one, one) == 1.0
    assert F1()(one, one) == 1.0


def test_independent_partitions_share_no_information():
    first, second = np.divmod(np.arange(100), 10)
    assert NMI()(first, second) == pytest.approx(0.0, abs=1e-12)


def test_pairs_of_large_classes_are_counted_exactly():
    count = 300_000
    clusters = np.zeros(count, dtype=np.int64)
    classes = clusters.copy()
    classes[0] = 1
    both, every = (count - 1) * (count - 2) // 2, count * (count - 1) // 2
    assert pair_counting_f1(clusters, classes) == 2 * both / (every + both)
