"""Recall@k: the share of queries with at least one positive among the k nearest."""

import numpy as np

from unseen.core.checks import check_count
from unseen.core.registry import score
from unseen.evaluation.exact.arrays import Floats, Integers
from unseen.evaluation.exact.ranks import Ranks
from unseen.evaluation.scores.base import Score


def hit_probability(ranks: Ranks, cutoffs: Integers) -> Floats:
    r"""Probability that at least one positive is among the first ``cutoffs[q]`` ranks of each query q.

    Only the nearest tied group with a positive matters. With t items, r positives and m ranks inside the group, m
    items drawn without replacement miss all positives with probability :math:`\prod_{i<r} (t - m - i) / (t - i)`.
    """
    query, before, size, positives, _ = ranks.nearest_groups
    inside = np.clip(cutoffs[query] - before, 0, size)
    miss = np.where(inside > 0, 0.0, 1.0)
    # A hit is uncertain only where there are fewer ranks than negatives.
    uncertain = np.flatnonzero((inside > 0) & (inside <= size - positives))
    size, positives, inside = size[uncertain], positives[uncertain], inside[uncertain]
    # The formula is symmetric in m and r; the smaller of the two needs fewer factors.
    fewer, more = np.minimum(inside, positives), np.maximum(inside, positives)
    product = np.ones(len(uncertain))
    for step in range(int(fewer.max(initial=0))):
        product *= np.where(step < fewer, (size - more - step) / np.maximum(size - step, 1), 1.0)
    miss[uncertain] = product
    values = np.zeros(len(ranks.positives))
    values[query] = 1.0 - miss
    return values


@score("recall")
class Recall(Score):
    """Share of queries with at least one positive among the k nearest."""

    basis = "ranks"

    def __init__(self, *, k: int = 1) -> None:
        check_count("Recall", "k", k)
        self.k = k
        self.definition = f"share of queries with at least one positive among the {k} nearest"

    def __call__(self, ranks: Ranks) -> Floats:
        """One value per query."""
        return hit_probability(ranks, ranks.everywhere(self.k))
