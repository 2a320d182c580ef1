"""Normalised discounted cumulative gain: positives count less the later they rank."""

import numpy as np

from unseen.core.checks import check_count
from unseen.core.registry import score
from unseen.evaluation.exact.arrays import Floats, Integers
from unseen.evaluation.exact.ranks import Ranks
from unseen.evaluation.scores.base import Score


def expected_gain(ranks: Ranks, cutoffs: Integers) -> Floats:
    r"""Expected discounted gain of the first ``cutoffs[q]`` ranks: the sum of rel(i) / log2(i + 1).

    In a tied group of t items behind n others, of which m ranks count, each positive stands at each rank with
    probability 1 / t: it gains :math:`\frac1t \sum_{j=1}^{m} 1 / \log_2(n + j + 1)`.
    """
    sums = _discount_sums(int(ranks.candidates.max(initial=0)))
    remaining = cutoffs[ranks.query] - ranks.above
    reached = np.flatnonzero(remaining > 0)
    above, tied = ranks.above[reached], ranks.tied[reached]
    gains = (sums[above + np.minimum(remaining[reached], tied)] - sums[above]) / tied
    return ranks.sum_by_query(ranks.query[reached], gains)


def _discount_sums(cutoff: int) -> Floats:
    """Sums of the first 0, 1, ..., ``cutoff`` discounts 1 / log2(i + 1)."""
    return np.concatenate([[0.0], np.cumsum(1.0 / np.log2(np.arange(2, cutoff + 2)))])


@score("ndcg")
class NDCG(Score):
    """Normalised discounted cumulative gain over the full ranking or the k nearest; a positive gains 1, others 0.

    Reference:  Jarvelin and Kekalainen, Cumulated gain-based evaluation of IR techniques, TOIS 2002
    """

    basis = "ranks"

    def __init__(self, *, k: int | None = None) -> None:
        if k is not None:
            check_count("NDCG", "k", k)
        self.k = k
        where = "whole gallery" if k is None else f"{k} nearest"
        self.definition = (
            f"mean over queries of sum of rel(i) / log2(i + 1) over the {where}, divided by its best value"
        )

    def __call__(self, ranks: Ranks) -> Floats:
        """One value per query."""
        cutoffs = ranks.candidates if self.k is None else ranks.everywhere(self.k)
        best = np.minimum(ranks.positives, cutoffs)
        ideal = _discount_sums(int(best.max(initial=0)))[best]
        # Differences of sums are rounded; no ranking may exceed the best one.
        return np.minimum(expected_gain(ranks, cutoffs) / np.where(best > 0, ideal, 1.0), 1.0)
