"""Mean reciprocal rank: how early the first positive ranks."""

import numpy as np

from unseen.core.registry import score
from unseen.evaluation.exact.arrays import Floats, Integers
from unseen.evaluation.exact.ranks import Ranks
from unseen.evaluation.scores.base import Score


def expected_reciprocal(ranks: Ranks, cutoffs: Integers) -> Floats:
    r"""Expected value of 1 / (rank of the first positive) of each query q, 0 for a rank beyond ``cutoffs[q]``.

    Only the nearest tied group with a positive matters. Behind n items, with t items and r positives in the group, the
    first positive is the j-th of the group with probability :math:`p_j`:

    .. math:: \sum_{j=1}^{t - r + 1} \frac{p_j}{n + j}, \qquad
              p_1 = \frac rt, \quad p_{j+1} = p_j \frac{t - r - j + 1}{t - j}
    """
    groups = ranks.nearest_groups
    values = np.zeros(len(ranks.positives))
    reached = cutoffs[groups.query] > groups.before
    values[groups.query[reached]] = 1.0 / (groups.before[reached] + 1)
    tied = groups.size > 1
    query = groups.query[tied]
    kinds = np.stack([groups.before[tied], groups.size[tied], groups.positives[tied], cutoffs[query]])
    # A collapsed model has thousands of ranks to sum over, but few distinct groups.
    (before, size, positives, last), kind_of = np.unique(kinds, axis=1, return_inverse=True)
    lengths = np.clip(last - before, 0, size - positives + 1)
    longest = np.argsort(-lengths, kind="stable")
    before, size, positives, lengths = before[longest], size[longest], positives[longest], lengths[longest]
    sums, probability = np.zeros(len(before)), positives / np.maximum(size, 1)
    for step in range(1, int(lengths.max(initial=0)) + 1):
        left = int(np.searchsorted(-lengths, -step, side="right"))
        sums[:left] += probability[:left] / (before[:left] + step)
        # After the last rank of a group the probability is 0, and so is the denominator.
        probability[:left] *= (size - positives - step + 1)[:left] / np.maximum(size[:left] - step, 1)
    in_order = np.empty_like(sums)
    in_order[longest] = sums
    values[query] = in_order[kind_of.ravel()]
    return values


@score("mrr")
class MeanReciprocalRank(Score):
    """Mean over queries of 1 / (rank of the nearest positive)."""

    basis = "ranks"
    definition = "mean over queries of 1 / (place of the nearest positive in the whole gallery)"

    def __call__(self, ranks: Ranks) -> Floats:
        """One value per query."""
        return expected_reciprocal(ranks, ranks.candidates)
