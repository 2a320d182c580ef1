"""Mean reciprocal rank: how early the first positive comes."""

import numpy as np
from numpy.typing import NDArray

from unseen.core.registry import score
from unseen.evaluation.exact.ranks import Ranks

Values = NDArray[np.float64]


def expected_reciprocal(ranks: Ranks, places: NDArray[np.int64]) -> Values:
    r"""Expected value of 1 / (place of the first positive) of each query q, 0 for a place beyond ``places[q]``.

    Only the nearest group with a positive matters. Behind n items, with t items and r positives in it, the first
    positive is the j-th of the group with probability :math:`p_j`:

    .. math:: \sum_{j=1}^{t - r + 1} \frac{p_j}{n + j}, \qquad
              p_1 = \frac rt, \quad p_{j+1} = p_j \frac{t - r - j + 1}{t - j}
    """
    groups = ranks.nearest_groups
    values = np.zeros(len(ranks.positives))
    reached = places[groups.query] > groups.before
    values[groups.query[reached]] = 1.0 / (groups.before[reached] + 1)
    tied = groups.size > 1
    query = groups.query[tied]
    facts = np.stack([groups.before[tied], groups.size[tied], groups.positives[tied], places[query]])
    # A collapsed model has thousands of places to sum over, but few different groups.
    (before, size, positives, last), kind = np.unique(facts, axis=1, return_inverse=True)
    lengths = np.clip(last - before, 0, size - positives + 1)
    longest = np.argsort(-lengths, kind="stable")
    before, size, positives, lengths = before[longest], size[longest], positives[longest], lengths[longest]
    sums, chance = np.zeros(len(before)), positives / np.maximum(size, 1)
    for step in range(1, int(lengths.max(initial=0)) + 1):
        left = int(np.searchsorted(-lengths, -step, side="right"))
        sums[:left] += chance[:left] / (before[:left] + step)
        # After the last place of a group the chance is 0, and so is what it is divided by.
        chance[:left] *= (size - positives - step + 1)[:left] / np.maximum(size[:left] - step, 1)
    in_order = np.empty_like(sums)
    in_order[longest] = sums
    values[query] = in_order[kind.ravel()]
    return values


@score("mrr")
class MeanReciprocalRank:
    """Mean over queries of 1 / (place of the nearest positive)."""

    basis = "ranks"
    higher_is_better = True
    bounds = (0.0, 1.0)
    definition = "mean over queries of 1 / (place of the nearest positive in the whole gallery)"

    def __call__(self, ranks: Ranks) -> Values:
        """One value for each query."""
        return expected_reciprocal(ranks, ranks.candidates)
