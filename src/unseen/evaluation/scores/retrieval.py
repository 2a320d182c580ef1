"""Retrieval scores: functions of the ranks of positives, one value a query.

Each score gives the expected value over all orders of tied items (`ranks`). A query without positives gets 0.

=========  =====================================================================
R          number of positives of the query
k_c        R + 1, the size of the query's class with the query itself
rel(i)     1 if the item at place i is a positive, else 0
Prec(i)    share of positives among the first i places
=========  =====================================================================
"""

import numpy as np
from numpy.typing import NDArray

from unseen.core.checks import check_count
from unseen.core.registry import score
from unseen.evaluation.exact.ranks import Ranks

Values = NDArray[np.float64]


def expected_hits(ranks: Ranks, places: NDArray[np.int64]) -> Values:
    """Expected number of positives among the first ``places[q]`` places of each query q.

    A tied group of t items of which m places count gives each of its positives the chance m / t.
    """
    reached, query, left = _reached(places, ranks.query, ranks.above)
    tied = ranks.tied[reached]
    hits = _sum_by_query(ranks, query, np.minimum(left, tied) / tied)
    # Rounding must not put more positives into k places than k.
    return np.minimum(hits, places)


def chance_of_hit(ranks: Ranks, places: NDArray[np.int64]) -> Values:
    r"""Probability that at least one positive is among the first ``places[q]`` places of each query q.

    Only the nearest group with a positive matters. With t items, r positives and m places inside it, m drawn without
    replacement miss all positives with probability :math:`\prod_{i<r} (t - m - i) / (t - i)`.
    """
    query, before, size, positives, _ = ranks.nearest_groups
    inside = np.clip(places[query] - before, 0, size)
    miss = np.where(inside > 0, 0.0, 1.0)
    # Fewer places than negatives: only here is a hit uncertain.
    unsure = np.flatnonzero((inside > 0) & (inside <= size - positives))
    size, positives, inside = size[unsure], positives[unsure], inside[unsure]
    # The formula is symmetric in m and r; the smaller of the two needs fewer factors.
    drawn, others = np.minimum(inside, positives), np.maximum(inside, positives)
    product = np.ones(len(unsure))
    for step in range(int(drawn.max(initial=0))):
        product *= np.where(step < drawn, (size - others - step) / np.maximum(size - step, 1), 1.0)
    miss[unsure] = product
    values = np.zeros(len(ranks.positives))
    values[query] = 1.0 - miss
    return values


def expected_precision_sum(ranks: Ranks, places: NDArray[np.int64]) -> Values:
    r"""Expected value of the sum of Prec(i) rel(i) over the first ``places[q]`` places of each query q.

    In a tied group behind n items and b positives, with t items and r positives, place n + j holds a positive with
    probability r / t, and then (j - 1)(r - 1) / (t - 1) positives of the group are expected before it:

    .. math:: \sum_{j=1}^{m} \frac{r}{t} \cdot \frac{b + 1 + (j - 1)(r - 1)/(t - 1)}{n + j}

    With harmonic numbers H, the two sums are :math:`\sum_j 1/(n+j) = H_{n+m} - H_n =: h` and
    :math:`\sum_j (j-1)/(n+j) = m - (n + 1) h`.
    """
    groups = ranks.groups
    reached, query, left = _reached(places, groups.query, groups.before)
    before, size, positives_before = groups.before[reached], groups.size[reached], groups.positives_before[reached]
    terms = (positives_before + 1) / (before + 1)
    tied = np.flatnonzero(size > 1)
    if len(tied):
        before, size, positives_before = before[tied], size[tied], positives_before[tied]
        positives, inside = groups.positives[reached][tied], np.minimum(left[tied], size)
        harmonic = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, ranks.candidates.max() + 1))])
        sums = harmonic[before + inside] - harmonic[before]
        slope = (positives - 1) / (size - 1)
        terms[tied] = positives / size * ((positives_before + 1) * sums + slope * (inside - (before + 1) * sums))
    return _sum_by_query(ranks, query, terms)


def expected_gain(ranks: Ranks, places: NDArray[np.int64]) -> Values:
    r"""Expected discounted gain of the first ``places[q]`` places: the sum of rel(i) / log2(i + 1).

    In a tied group of t items behind n others, of which m places count, each positive stands on each place with
    probability 1 / t: it gains :math:`\frac1t \sum_{j=1}^{m} 1 / \log_2(n + j + 1)`.
    """
    sums = _discounts(int(ranks.candidates.max(initial=0)))
    reached, query, left = _reached(places, ranks.query, ranks.above)
    above, tied = ranks.above[reached], ranks.tied[reached]
    return _sum_by_query(ranks, query, (sums[above + np.minimum(left, tied)] - sums[above]) / tied)


def _discounts(places: int) -> Values:
    """Sums of the first 0, 1, ..., ``places`` discounts 1 / log2(i + 1)."""
    return np.concatenate([[0.0], np.cumsum(1.0 / np.log2(np.arange(2, places + 2)))])


def normalised_gain(ranks: Ranks, places: NDArray[np.int64]) -> Values:
    """Expected discounted gain divided by that of the best ranking, which has its positives first."""
    best = np.minimum(ranks.positives, places)
    ideal = _discounts(int(best.max(initial=0)))[best]
    # Differences of sums are rounded; no ranking is better than the best.
    return np.minimum(expected_gain(ranks, places) / np.where(best > 0, ideal, 1.0), 1.0)


def _reached(
    places: NDArray[np.int64], query: NDArray[np.int64], before: NDArray[np.int64]
) -> tuple[NDArray[np.int64] | slice, NDArray[np.int64], NDArray[np.int64]]:
    """Which of some items the first places reach: their numbers, queries, and how many places there are from each on.

    The first few places reach hardly any positive of most queries: nothing more is computed for the others.
    """
    left = places[query] - before
    reached = np.flatnonzero(left > 0)
    return (slice(None), query, left) if len(reached) == len(left) else (reached, query[reached], left[reached])


def _sum_by_query(ranks: Ranks, query: NDArray[np.int64], terms: Values) -> Values:
    return np.bincount(query, weights=terms, minlength=len(ranks.positives)).astype(np.float64)


def _everywhere(ranks: Ranks, k: int) -> NDArray[np.int64]:
    return np.full(len(ranks.positives), k)


def _per_positive(ranks: Ranks, sums: Values) -> Values:
    return sums / np.maximum(ranks.positives, 1)


class _Facts:
    """What a report needs to know of a score."""

    basis = "ranks"
    higher_is_better = True
    bounds = (0.0, 1.0)


@score("recall")
class Recall(_Facts):
    """Share of queries with at least one positive among the k nearest (SPEC 4.1)."""

    def __init__(self, *, k: int = 1) -> None:
        check_count("Recall", "k", k)
        self.k = k
        self.definition = f"share of queries with at least one positive among the {k} nearest"

    def __call__(self, ranks: Ranks) -> Values:
        """One value for each query."""
        return chance_of_hit(ranks, _everywhere(ranks, self.k))


@score("precision")
class Precision(_Facts):
    """Share of positives among the k nearest, divided by k even where a class is smaller (SPEC 4.2)."""

    def __init__(self, *, k: int = 1) -> None:
        check_count("Precision", "k", k)
        self.k = k
        self.definition = f"mean share of positives among the {k} nearest, always divided by {k}"

    def __call__(self, ranks: Ranks) -> Values:
        """One value for each query."""
        return expected_hits(ranks, _everywhere(ranks, self.k)) / self.k


@score("r_precision")
class RPrecision(_Facts):
    """Share of positives among the R nearest, where R is the number of positives of the query."""

    definition = "mean over queries of (positives among the R nearest) / R"

    def __call__(self, ranks: Ranks) -> Values:
        """One value for each query."""
        return _per_positive(ranks, expected_hits(ranks, ranks.positives))


@score("map@r")
class MAPAtR(_Facts):
    """MAP@R of Musgrave et al., A Metric Learning Reality Check, arXiv:2003.08505 (SPEC 4.8)."""

    definition = "mean over queries of (1/R) sum of Prec(i) rel(i) over the R nearest"

    def __call__(self, ranks: Ranks) -> Values:
        """One value for each query."""
        return _per_positive(ranks, expected_precision_sum(ranks, ranks.positives))


@score("map@c")
class MAPAtC(_Facts):
    """MAP@C as the code of R computes it, which its tables report (SPEC 4.5); at most (k_c - 1) / k_c."""

    definition = "mean over queries of (1/k_c) sum of Prec(i) rel(i) over the k_c nearest; k_c counts the query"

    def __call__(self, ranks: Ranks) -> Values:
        """One value for each query."""
        return expected_precision_sum(ranks, ranks.positives + 1) / (ranks.positives + 1)


@score("map@c_printed")
class MAPAtCPrinted(_Facts):
    """MAP@C as equation 29 of R prints it, without order inside the k_c nearest (SPEC 4.5)."""

    definition = "mean over queries of (positives among the k_c nearest) / k_c; k_c counts the query"

    def __call__(self, ranks: Ranks) -> Values:
        """One value for each query."""
        return expected_hits(ranks, ranks.positives + 1) / (ranks.positives + 1)


@score("map@1000")
class MAPAt1000(_Facts):
    """mAP@1000 as the code of R computes it (SPEC 4.6); all neighbours where there are fewer than 1,000."""

    definition = "mean over queries of (1/k_c) sum of Prec(i) rel(i) over the 1000 nearest; k_c counts the query"

    def __call__(self, ranks: Ranks) -> Values:
        """One value for each query."""
        return expected_precision_sum(ranks, _everywhere(ranks, 1000)) / (ranks.positives + 1)


@score("map@1000_printed")
class MAPAt1000Printed(_Facts):
    """mAP@1000 as equation 30 of R prints it (SPEC 4.6); at most R / 1000, so no table reports it."""

    definition = "mean over queries of (positives among the 1000 nearest) / 1000"

    def __call__(self, ranks: Ranks) -> Values:
        """One value for each query."""
        return expected_hits(ranks, _everywhere(ranks, 1000)) / 1000


@score("ap")
class AveragePrecision(_Facts):
    """Average precision over the full ranking (SPEC 4.7)."""

    definition = "mean over queries of (1/R) sum of Prec(i) rel(i) over the whole gallery"

    def __call__(self, ranks: Ranks) -> Values:
        """One value for each query."""
        return _per_positive(ranks, expected_precision_sum(ranks, ranks.candidates))


@score("ndcg")
class NDCG(_Facts):
    """Normalised discounted cumulative gain over the full ranking or the k nearest; a positive gains 1, all else 0.

    Reference:  Jarvelin and Kekalainen, Cumulated gain-based evaluation of IR techniques, TOIS 2002
    """

    def __init__(self, *, k: int | None = None) -> None:
        if k is not None:
            check_count("NDCG", "k", k)
        self.k = k
        where = "whole gallery" if k is None else f"{k} nearest"
        self.definition = (
            f"mean over queries of sum of rel(i) / log2(i + 1) over the {where}, divided by its best value"
        )

    def __call__(self, ranks: Ranks) -> Values:
        """One value for each query."""
        return normalised_gain(ranks, ranks.candidates if self.k is None else _everywhere(ranks, self.k))
