"""Precision: the share of positives among the nearest items, for several numbers of items.

R is the number of positives of the query, and k_c = R + 1 the size of its class with the query itself. Every score is
the expected value over all orders of tied items. A query without positives gets 0.
"""

import numpy as np

from unseen.core.checks import check_count
from unseen.core.registry import score
from unseen.evaluation.exact.arrays import Floats, Integers
from unseen.evaluation.exact.ranks import Ranks
from unseen.evaluation.scores.base import Score


def expected_hits(ranks: Ranks, cutoffs: Integers) -> Floats:
    """Expected number of positives among the first ``cutoffs[q]`` ranks of each query q.

    In a tied group of t items of which m ranks count, each positive is among them with probability m / t.
    """
    remaining = cutoffs[ranks.query] - ranks.above
    # The first few ranks reach hardly any positive of most queries: nothing is computed for the others.
    reached = np.flatnonzero(remaining > 0)
    tied = ranks.tied[reached]
    hits = ranks.sum_by_query(ranks.query[reached], np.minimum(remaining[reached], tied) / tied)
    # Rounding must not put more than k positives into k ranks.
    return np.minimum(hits, cutoffs)


@score("precision")
class Precision(Score):
    """Share of positives among the k nearest, divided by k even where a class is smaller."""

    basis = "ranks"

    def __init__(self, *, k: int = 1) -> None:
        check_count("Precision", "k", k)
        self.k = k
        self.definition = f"mean share of positives among the {k} nearest, always divided by {k}"

    def __call__(self, ranks: Ranks) -> Floats:
        """One value per query."""
        return expected_hits(ranks, ranks.everywhere(self.k)) / self.k


@score("r_precision")
class RPrecision(Score):
    """Share of positives among the R nearest, where R is the number of positives of the query."""

    basis = "ranks"
    definition = "mean over queries of (positives among the R nearest) / R"

    def __call__(self, ranks: Ranks) -> Floats:
        """One value per query."""
        return ranks.per_positive(expected_hits(ranks, ranks.positives))


@score("map@c_printed")
class MAPAtCPrinted(Score):
    """mAP@C as equation 29 of Roth et al. (arXiv:2002.08473) prints it: the order inside the k_c nearest is ignored."""

    basis = "ranks"
    definition = "mean over queries of (positives among the k_c nearest) / k_c; k_c counts the query"

    def __call__(self, ranks: Ranks) -> Floats:
        """One value per query."""
        return expected_hits(ranks, ranks.positives + 1) / (ranks.positives + 1)


@score("map@1000_printed")
class MAPAt1000Printed(Score):
    """mAP@1000 as equation 30 of Roth et al. (arXiv:2002.08473) prints it; at most R / 1000, so no table reports it."""

    basis = "ranks"
    definition = "mean over queries of (positives among the 1000 nearest) / 1000"

    def __call__(self, ranks: Ranks) -> Floats:
        """One value per query."""
        return expected_hits(ranks, ranks.everywhere(1000)) / 1000
