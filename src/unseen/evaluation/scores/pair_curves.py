r"""Curves over pairs: ROC, precision-recall, and what is read off them (SPEC 4.13).

All are functions of how many pairs of each similarity share a class. Up to two million pairs are counted by their exact
similarity; more are counted in bins as wide as 2^-15. Pairs of one similarity (or bin) are tied: they pass a threshold
together, so AUC counts them half.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unseen.core.registry import score
from unseen.evaluation.exact.directions import Directions
from unseen.evaluation.exact.inputs import Table
from unseen.evaluation.exact.pair_histograms import Histograms, centres, pair_histograms

Values = NDArray[np.float64]
Numbers = NDArray[np.int64]

_PAIRS_TO_SORT = 2**21
_ROWS_AT_ONCE = 512
# Coarser than the rounding of one product, so that copies of different images are equally similar: 1.
_GRAIN = 2.0**40


class PairCounts(NamedTuple):
    """For each similarity that occurs, highest first: pairs of one class, and pairs of two."""

    similarity: Values
    positives: Numbers
    negatives: Numbers


class ROC(NamedTuple):
    """Share of the positive and of the negative pairs at least as similar as each threshold, from (0, 0) to (1, 1)."""

    threshold: Values
    false_positive_rate: Values
    true_positive_rate: Values


class PrecisionRecall(NamedTuple):
    """Share of positives among the pairs at least as similar as each threshold, and share of positives found."""

    threshold: Values
    precision: Values
    recall: Values


def count_pairs(table: Table) -> PairCounts:
    """The pairs of a query and another row of the gallery; unordered pairs where queries and gallery are the same.

    Rows of one group of the table are no pair. The counts do not depend on the order of the rows or on threads.
    """
    is_square = _is_square(table)
    pairs = len(table.queries) * len(table.gallery) // (2 if is_square else 1)
    if pairs <= _PAIRS_TO_SORT:
        return _sorted_counts(*_all_pairs(table, is_square))
    return binned_counts(table_histograms(table))


def table_histograms(table: Table, dealt: Numbers | None = None) -> Histograms:
    """The same pairs in bins; ``dealt`` gives for each class the group 0, 1, ... by which pairs are told apart."""
    directions, classes, queries, gallery, apart = table
    groups = None if dealt is None else dealt[classes]
    if not _is_square(table):
        return pair_histograms(directions, classes, queries=queries, gallery=gallery, apart=apart, groups=groups)
    apart, groups = (None if numbers is None else numbers[queries] for numbers in (apart, groups))
    return pair_histograms(directions.take(queries), classes[queries], apart=apart, groups=groups)


def binned_counts(found: Histograms, kept: Numbers | None = None) -> PairCounts:
    """The counts of all pairs, or of those whose rows both lie in the groups that are kept."""
    kept = np.arange(len(found.positives)) if kept is None else kept
    positives, negatives = np.zeros((2, found.positives.shape[-1]), dtype=np.int64)
    for group in kept:
        positives += found.positives[group]
        for other in kept:
            negatives += found.negatives[group, other]
    places = np.flatnonzero(positives + negatives)[::-1]
    return PairCounts(centres()[places], positives[places], negatives[places])


def _is_square(table: Table) -> bool:
    return np.array_equal(np.sort(table.queries), np.sort(table.gallery))


def _all_pairs(table: Table, is_square: bool) -> tuple[Values, NDArray[np.bool_]]:
    """The similarity of each pair, and whether it is positive."""
    similarities, answers = [], []
    columns = _wholes(table.directions, table.gallery)
    for start in range(0, len(table.queries), _ROWS_AT_ONCE):
        rows = table.queries[start : start + _ROWS_AT_ONCE]
        whole, inverse = _wholes(table.directions, rows)
        similarity = (whole @ columns[0].T) * (inverse[:, None] * columns[1])
        # In a square, the pair of rows i < j is met at row i.
        wanted = rows[:, None] < table.gallery if is_square else rows[:, None] != table.gallery
        if table.groups is not None:
            wanted &= table.groups[rows][:, None] != table.groups[table.gallery]
        similarities.append(np.clip(np.rint(similarity[wanted] * _GRAIN) / _GRAIN, -1.0, 1.0))
        answers.append((table.classes[rows][:, None] == table.classes[table.gallery])[wanted])
    return np.concatenate(similarities), np.concatenate(answers)


def _wholes(directions: Directions, rows: Numbers) -> tuple[Values, Values]:
    return directions.whole(rows).numpy(), directions.inverse_norms.numpy()[rows]


def _sorted_counts(similarity: Values, is_positive: NDArray[np.bool_]) -> PairCounts:
    values, places = np.unique(similarity, return_inverse=True)
    positives = np.bincount(places[is_positive], minlength=len(values))
    negatives = np.bincount(places[~is_positive], minlength=len(values))
    return PairCounts(values[::-1], positives[::-1], negatives[::-1])


def roc(counts: PairCounts) -> ROC:
    """The points of the ROC curve, one for each similarity that occurs, behind the origin.

    Empty:  without positive (negative) pairs that rate is 0 everywhere
    """
    return ROC(
        np.concatenate([[np.inf], counts.similarity]),
        _rate(counts.negatives),
        _rate(counts.positives),
    )


def _rate(counts: Numbers) -> Values:
    return np.concatenate([[0], np.cumsum(counts)]) / max(1, int(counts.sum()))


def precision_recall(counts: PairCounts) -> PrecisionRecall:
    """The points of the precision-recall curve, one for each similarity that occurs; the last is at the base rate.

    Empty:  without positive pairs precision and recall are 0
    """
    found = np.cumsum(counts.positives)
    return PrecisionRecall(
        counts.similarity,
        found / np.cumsum(counts.positives + counts.negatives),
        found / max(1, int(counts.positives.sum())),
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
    """The rate at which as many negative pairs pass as positive pairs do not, on the ROC curve's straight pieces.

    Empty:  0.5, a guess, without positive or without negative pairs
    """
    if not counts.positives.any() or not counts.negatives.any():
        return 0.5
    curve = roc(counts)
    # It rises from -1 to 1; the rates are equal where it crosses 0.
    excess = curve.false_positive_rate + curve.true_positive_rate - 1.0
    after = int(np.argmax(excess >= 0))
    share = -excess[after - 1] / (excess[after] - excess[after - 1])
    before = curve.false_positive_rate[after - 1]
    return float(before + share * (curve.false_positive_rate[after] - before))


def uniformity(counts: PairCounts, *, t: float = 2.0) -> float:
    r"""How evenly the embeddings fill the sphere (SPEC 4.12); lower is more evenly.

    .. math:: \log \operatorname{mean}_{i<j}\, e^{-t |e_i - e_j|^2}, \qquad |e_i - e_j|^2 = 2 - 2 S_{ij}

    Over bins, the middle of a bin stands for its pairs: that moves the value by less than 1e-7.

    Empty:      0 without a pair
    Reference:  Wang and Isola, Understanding Contrastive Representation Learning, ICML 2020, arXiv:2005.10242
    """
    pairs = counts.positives + counts.negatives
    if len(pairs) == 0:
        return 0.0
    # The largest term goes first, so that nothing vanishes for a large t.
    largest = counts.similarity[0]
    terms = np.exp(2.0 * t * (counts.similarity - largest)) * pairs
    return float(np.log(terms.sum() / pairs.sum()) - 2.0 * t * (1.0 - largest))


class _Facts:
    """What a report needs to know of a score."""

    basis = "curves"
    higher_is_better = True
    bounds = (0.0, 1.0)


@score("pair_auc")
class PairAUC(_Facts):
    """Area under the ROC curve over pairs (SPEC 4.13)."""

    definition = "probability that a pair of one class is more similar than a pair of two; ties half"

    def __call__(self, counts: PairCounts) -> float:
        """One value for all pairs."""
        return pair_auc(counts)


@score("pair_ap")
class PairAP(_Facts):
    """Average precision over pairs (SPEC 4.13)."""

    definition = "sum over thresholds of precision x gained recall over pairs; tied pairs enter together"

    def __call__(self, counts: PairCounts) -> float:
        """One value for all pairs."""
        return pair_average_precision(counts)


@score("pair_eer")
class PairEER(_Facts):
    """Equal error rate over pairs: 0 is perfect, 0.5 a guess."""

    higher_is_better = False
    definition = "rate at which false positives and false negatives over pairs are equally frequent"

    def __call__(self, counts: PairCounts) -> float:
        """One value for all pairs."""
        return pair_equal_error_rate(counts)


@score("uniformity")
class Uniformity(_Facts):
    """How evenly the embeddings fill the sphere (SPEC 4.12)."""

    higher_is_better = False
    bounds = (-8.0, 0.0)
    definition = "log of the mean over pairs of exp(-2 |e_i - e_j|^2)"

    def __call__(self, counts: PairCounts) -> float:
        """One value for all pairs."""
        return min(0.0, uniformity(counts))
