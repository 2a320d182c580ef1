"""Verification over pairs: ROC, precision-recall, and the scores read off these curves.

All are functions of how many pairs of each similarity share a class. Up to two million pairs are counted by their exact
similarity; more are counted in bins of width 2^-15. Pairs of one similarity (or bin) are tied: they pass a threshold
together, so AUC counts them half.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from unseen.core.registry import score
from unseen.evaluation.exact.arrays import Booleans, Floats, Integers
from unseen.evaluation.exact.directions import Directions
from unseen.evaluation.exact.inputs import Table
from unseen.evaluation.exact.pair_histograms import Histograms, bin_centres, is_square, pair_histograms
from unseen.evaluation.scores.base import Score

_PAIRS_TO_SORT = 2**21
_ROWS_AT_ONCE = 512
# Coarser than the rounding of one product, so that every copy has a similarity of exactly 1.
_GRAIN = 2.0**40


class PairCounts(NamedTuple):
    """For each similarity that occurs, highest first: number of pairs of one class, and of two classes."""

    similarity: Floats
    positives: Integers
    negatives: Integers


class ROC(NamedTuple):
    """Share of the negative and of the positive pairs at least as similar as each threshold, from (0, 0) to (1, 1)."""

    threshold: Floats
    false_positive_rate: Floats
    true_positive_rate: Floats


class PrecisionRecall(NamedTuple):
    """Share of positives among the pairs at least as similar as each threshold, and share of all positives."""

    threshold: Floats
    precision: Floats
    recall: Floats


def count_pairs(table: Table) -> PairCounts:
    """Count the pairs of a query and another gallery row; unordered pairs where both are the same rows.

    Two rows of one group of the table are not a pair. The counts do not depend on the order of the rows or on threads.
    """
    is_symmetric = is_square(table)
    pairs = len(table.queries) * len(table.gallery) // (2 if is_symmetric else 1)
    if pairs <= _PAIRS_TO_SORT:
        similarity, is_positive = _all_pairs(table, is_symmetric)
        values, index = np.unique(similarity, return_inverse=True)
        positives = np.bincount(index[is_positive], minlength=len(values))
        negatives = np.bincount(index[~is_positive], minlength=len(values))
        return PairCounts(values[::-1], positives[::-1], negatives[::-1])
    return binned_counts(pair_histograms(table))


def binned_counts(histograms: Histograms, groups: Sequence[int] | None = None) -> PairCounts:
    """The counts of all pairs, or of those whose rows both lie in some class groups."""
    groups = range(len(histograms.positives)) if groups is None else groups
    positives, negatives = np.zeros((2, histograms.positives.shape[-1]), dtype=np.int64)
    for group in groups:
        positives += histograms.positives[group]
        for other in groups:
            negatives += histograms.negatives[group, other]
    bins = np.flatnonzero(positives + negatives)[::-1]
    return PairCounts(bin_centres()[bins], positives[bins], negatives[bins])


def _all_pairs(table: Table, is_symmetric: bool) -> tuple[Floats, Booleans]:
    """The similarity of each pair, and whether it is positive."""
    similarities, labels = [], []
    columns = _integers(table.directions, table.gallery)
    for start in range(0, len(table.queries), _ROWS_AT_ONCE):
        rows = table.queries[start : start + _ROWS_AT_ONCE]
        integers, inverse = _integers(table.directions, rows)
        similarity = (integers @ columns[0].T) * (inverse[:, None] * columns[1])
        # If queries and gallery are the same, the pair of rows i < j is met at row i.
        wanted = rows[:, None] < table.gallery if is_symmetric else rows[:, None] != table.gallery
        if table.groups is not None:
            wanted &= table.groups[rows][:, None] != table.groups[table.gallery]
        similarities.append(np.clip(np.rint(similarity[wanted] * _GRAIN) / _GRAIN, -1.0, 1.0))
        labels.append((table.classes[rows][:, None] == table.classes[table.gallery])[wanted])
    return np.concatenate(similarities), np.concatenate(labels)


def _integers(directions: Directions, rows: Integers) -> tuple[Floats, Floats]:
    return directions.integers(rows).numpy(), directions.inverse_norms.numpy()[rows]


def roc(counts: PairCounts) -> ROC:
    """The points of the ROC curve: the origin, then one per similarity that occurs.

    Empty:  without positive (negative) pairs that rate is 0 everywhere
    """
    return ROC(np.concatenate([[np.inf], counts.similarity]), _rate(counts.negatives), _rate(counts.positives))


def _rate(counts: Integers) -> Floats:
    return np.concatenate([[0], np.cumsum(counts)]) / max(1, int(counts.sum()))


def precision_recall(counts: PairCounts) -> PrecisionRecall:
    """The points of the precision-recall curve, one per similarity that occurs; the last is at the base rate.

    Empty:  without positive pairs precision and recall are 0
    """
    positives = np.cumsum(counts.positives)
    return PrecisionRecall(
        counts.similarity,
        positives / np.cumsum(counts.positives + counts.negatives),
        positives / max(1, int(counts.positives.sum())),
    )


def pair_auc(counts: PairCounts) -> float:
    """Probability that a positive pair is more similar than a negative one, ties half: the area under the ROC curve.

    Empty:  0.5, a guess, without positive or without negative pairs
    """
    if not counts.positives.any() or not counts.negatives.any():
        return 0.5
    curve = roc(counts)
    return float(np.trapezoid(curve.true_positive_rate, curve.false_positive_rate))


def pair_average_precision(counts: PairCounts) -> float:
    """Sum over thresholds of precision times the recall gained there; tied pairs enter together.

    Empty:  0 without positive pairs
    """
    curve = precision_recall(counts)
    return float((curve.precision * np.diff(curve.recall, prepend=0.0)).sum())


def pair_equal_error_rate(counts: PairCounts) -> float:
    """The error rate at the threshold where false-positive and false-negative rates are equal, interpolated linearly.

    Empty:  0.5, a guess, without positive or without negative pairs
    """
    if not counts.positives.any() or not counts.negatives.any():
        return 0.5
    curve = roc(counts)
    # Rises from -1 to 1; the rates are equal where it crosses 0.
    excess = curve.false_positive_rate + curve.true_positive_rate - 1.0
    after = int(np.argmax(excess >= 0))
    share = -excess[after - 1] / (excess[after] - excess[after - 1])
    before = curve.false_positive_rate[after - 1]
    return float(before + share * (curve.false_positive_rate[after] - before))


@score("pair_auc")
class PairAUC(Score):
    """Area under the ROC curve over pairs; 0.5 is a guess."""

    basis = "curves"
    collapsed = 0.5
    definition = "probability that a pair of one class is more similar than a pair of two; ties half"
    __call__ = staticmethod(pair_auc)


@score("pair_ap")
class PairAP(Score):
    """Average precision over pairs; the share of positive pairs is a guess."""

    basis = "curves"
    definition = "sum over thresholds of precision x gained recall over pairs; tied pairs enter together"
    __call__ = staticmethod(pair_average_precision)


@score("pair_eer")
class PairEER(Score):
    """Equal error rate over pairs: 0 is perfect, 0.5 a guess."""

    basis = "curves"
    higher_is_better = False
    collapsed = 0.5
    definition = "rate at which false positives and false negatives over pairs are equally frequent"
    __call__ = staticmethod(pair_equal_error_rate)
