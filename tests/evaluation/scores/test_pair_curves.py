"""Curves over pairs, against loops, scikit-learn and closed forms."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

import unseen.evaluation.scores.pair_curves as curves
from tests.helpers.pair_tables import pairs_of, small_table, table_of
from unseen.evaluation.exact.pair_histograms import pair_histograms
from unseen.evaluation.scores.pair_curves import (
    PairCounts,
    binned_counts,
    count_pairs,
    precision_recall,
    roc,
)
from unseen.evaluation.scores.uniformity import Uniformity

SCORES = {"auc": curves.PairAUC(), "ap": curves.PairAP(), "eer": curves.PairEER(), "uniformity": Uniformity()}


def test_auc_is_the_mann_whitney_statistic_and_ap_is_scikit_learns_on_200_tables():
    for number in range(200):
        rows, classes = small_table(number)
        similarity, same = pairs_of(rows, classes)
        counts = count_pairs(table_of(rows, classes))
        assert counts.positives.sum() == same.sum()
        assert counts.negatives.sum() == (~same).sum()
        if same.all() or not same.any():
            assert SCORES["auc"](counts) == SCORES["eer"](counts) == 0.5
            continue
        wins = [1.0 if p > n else 0.5 if p == n else 0.0 for p in similarity[same] for n in similarity[~same]]
        assert SCORES["auc"](counts) == pytest.approx(np.mean(wins), abs=1e-12), f"table {number}"
        expected = average_precision_score(same, similarity)
        assert SCORES["ap"](counts) == pytest.approx(expected, abs=1e-12), f"table {number}"


def clustered(count, seed=0, width=16):
    generator = np.random.default_rng(seed)
    classes = generator.integers(20, size=count)
    return generator.normal(size=(20, width))[classes] + 1.5 * generator.normal(size=(count, width)), classes


def test_curves_agree_with_scikit_learn():
    rows, classes = clustered(120)
    similarity, same = pairs_of(rows, classes)
    counts = count_pairs(table_of(rows, classes))
    assert SCORES["auc"](counts) == pytest.approx(roc_auc_score(same, similarity), abs=1e-9)
    assert SCORES["ap"](counts) == pytest.approx(average_precision_score(same, similarity), abs=1e-7)
    found = roc(counts)
    false, true, _ = roc_curve(same, similarity, drop_intermediate=False)
    assert found.false_positive_rate == pytest.approx(false, abs=1e-12)
    assert found.true_positive_rate == pytest.approx(true, abs=1e-12)
    assert found.threshold[0] == np.inf
    curve = precision_recall(counts)
    assert curve.precision[-1] == same.mean()
    assert curve.recall[-1] == 1.0


def test_bins_tell_the_same_story_as_sorting(monkeypatch):
    table = table_of(*clustered(700))
    exact = count_pairs(table)
    monkeypatch.setattr(curves, "_PAIRS_TO_SORT", 0)
    binned = count_pairs(table)
    assert binned.positives.sum() == exact.positives.sum()
    assert binned.negatives.sum() == exact.negatives.sum()
    for name, tolerance in (("auc", 1e-6), ("ap", 1e-4), ("eer", 1e-4), ("uniformity", 1e-6)):
        assert SCORES[name](binned) == pytest.approx(SCORES[name](exact), abs=tolerance)


@pytest.mark.parametrize("sorted_pairs", [2**21, 0])
def test_the_order_of_rows_and_names_does_not_matter_to_the_last_bit(sorted_pairs, monkeypatch):
    monkeypatch.setattr(curves, "_PAIRS_TO_SORT", sorted_pairs)
    rows, classes = clustered(300)
    rows[:30] = rows[30:60]
    shuffled = np.random.default_rng(3).permutation(300)
    found = count_pairs(table_of(rows, classes))
    again = count_pairs(table_of(rows[shuffled], (classes[shuffled] * 3 + 1) % 20))
    for name, measure in SCORES.items():
        assert measure(again) == measure(found), name


@pytest.mark.parametrize("sorted_pairs", [2**21, 0])
def test_queries_meet_the_gallery_but_not_themselves(sorted_pairs, monkeypatch):
    monkeypatch.setattr(curves, "_PAIRS_TO_SORT", sorted_pairs)
    rows, classes = clustered(60)
    queries, gallery = np.arange(25), np.arange(15, 60)
    counts = count_pairs(table_of(rows, classes, queries, gallery))
    pairs = [(i, j) for i in queries for j in gallery if i != j]
    assert counts.positives.sum() == sum(classes[i] == classes[j] for i, j in pairs)
    assert counts.negatives.sum() == sum(classes[i] != classes[j] for i, j in pairs)
    # The same rows in another order are still unordered pairs; a part of the rows too.
    part = count_pairs(table_of(rows, classes, queries, queries[::-1].copy()))
    assert part.positives.sum() + part.negatives.sum() == 25 * 24 // 2


@pytest.mark.parametrize("sorted_pairs", [2**21, 0])
def test_rows_of_one_group_are_no_pair(sorted_pairs, monkeypatch):
    monkeypatch.setattr(curves, "_PAIRS_TO_SORT", sorted_pairs)
    rows, classes = clustered(60)
    groups = np.arange(60) // 3
    for part in (np.arange(60), np.arange(10, 50)):
        counts = count_pairs(table_of(rows, classes, part, part)._replace(groups=groups))
        pairs = [(i, j) for i in part.tolist() for j in part.tolist() if i < j and groups[i] != groups[j]]
        assert counts.positives.sum() == sum(classes[i] == classes[j] for i, j in pairs)
        assert counts.negatives.sum() == sum(classes[i] != classes[j] for i, j in pairs)
    counts = count_pairs(table_of(rows, classes, np.arange(20), np.arange(15, 60))._replace(groups=groups))
    pairs = [(i, j) for i in range(20) for j in range(15, 60) if groups[i] != groups[j]]
    assert counts.positives.sum() + counts.negatives.sum() == len(pairs)


def test_groups_of_classes_can_be_left_out_of_the_counts_afterwards(monkeypatch):
    # Similarities of -1, 0 and 1, far from the edges of the bins.
    generator = np.random.default_rng(0)
    rows = np.eye(5)[generator.integers(5, size=90)] * generator.choice([-1.0, 1.0], size=(90, 1))
    classes = generator.integers(20, size=90)
    dealt = np.random.default_rng(1).integers(4, size=20)
    monkeypatch.setattr(curves, "_PAIRS_TO_SORT", 0)
    for queries, gallery in (
        (np.arange(90), np.arange(90)),
        (np.arange(80), np.arange(80)),
        (np.arange(40), np.arange(30, 90)),
    ):
        found = pair_histograms(table_of(rows, classes, queries, gallery), class_groups=dealt)
        for kept in ([0, 1, 2, 3], [0, 2, 3], [1]):
            inside = np.flatnonzero(np.isin(dealt[classes], kept))
            part = table_of(rows, classes, np.intersect1d(queries, inside), np.intersect1d(gallery, inside))
            for one, two in zip(binned_counts(found, kept), count_pairs(part), strict=True):
                assert one.tolist() == two.tolist()


def test_copies_of_different_images_are_equally_similar():
    rows = np.repeat(np.random.default_rng(0).normal(size=(20, 7)), 2, axis=0)
    counts = count_pairs(table_of(rows, np.repeat(np.arange(20), 2)))
    assert counts.similarity[0] == 1.0
    assert counts.positives[0] == 20
    assert SCORES["auc"](counts) == SCORES["ap"](counts) == 1.0
    assert SCORES["eer"](counts) == 0.0


@pytest.mark.parametrize("sorted_pairs", [2**21, 0])
def test_a_collapsed_model_guesses(sorted_pairs, monkeypatch):
    monkeypatch.setattr(curves, "_PAIRS_TO_SORT", sorted_pairs)
    counts = count_pairs(table_of(np.full((12, 3), 0.7), np.arange(12) % 3))
    assert counts.similarity.tolist() == [1.0]
    assert SCORES["auc"](counts) == SCORES["eer"](counts) == 0.5
    assert SCORES["ap"](counts) == pytest.approx(18 / 66)
    assert SCORES["uniformity"](counts) == 0.0


def test_the_equal_error_rate_is_read_between_the_points():
    # Rates after each similarity: (0, 1/2), (1/2, 1/2), (1/2, 1), (1, 1): equal errors at 1/2 and 1/2.
    counts = PairCounts(np.array([0.9, 0.5, 0.1, 0.0]), np.array([1, 0, 1, 0]), np.array([0, 1, 0, 1]))
    assert SCORES["eer"](counts) == 0.5
    # A straight line from (0, 0.8) to (1, 1): x = 1 - y at x = 1/6.
    counts = PairCounts(np.array([0.9, 0.5]), np.array([8, 2]), np.array([0, 10]))
    assert SCORES["eer"](counts) == pytest.approx(1 / 6)
    swapped = PairCounts(np.array([0.9, 0.5]), np.array([0, 10]), np.array([10, 0]))
    assert SCORES["eer"](swapped) == 1.0
    assert SCORES["auc"](swapped) == 0.0


def test_tables_without_pairs_of_a_kind_are_scored():
    nothing = count_pairs(table_of([[1.0, 0.0]], [0]))
    assert [measure(nothing) for measure in SCORES.values()] == [0.5, 0.0, 0.5, 0.0]
    strangers = count_pairs(table_of(np.eye(3), [0, 1, 2]))
    assert [measure(strangers) for measure in SCORES.values()] == [0.5, 0.0, 0.5, -4.0]
    friends = count_pairs(table_of(np.eye(3), [0, 0, 0]))
    assert SCORES["ap"](friends) == 1.0
