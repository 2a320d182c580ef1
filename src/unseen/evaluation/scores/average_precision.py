"""Average precision over the ranking of each query, for several cut-offs.

=========  =====================================================================
R          number of positives of the query
k_c        R + 1, the size of the query's class with the query itself
rel(i)     1 if the item at rank i is a positive, else 0
Prec(i)    share of positives among the first i ranks
=========  =====================================================================

Every score is the expected value over all orders of tied items. A query without positives gets 0.
"""

import numpy as np

from unseen.core.registry import score
from unseen.evaluation.exact.arrays import Floats, Integers
from unseen.evaluation.exact.ranks import Ranks
from unseen.evaluation.scores.base import Score


def expected_precision_sum(ranks: Ranks, cutoffs: Integers) -> Floats:
    r"""Expected value of the sum of Prec(i) rel(i) over the first ``cutoffs[q]`` ranks of each query q.

    In a tied group behind n items and b positives, with t items and r positives, rank n + j holds a positive with
    probability r / t, and then (j - 1)(r - 1) / (t - 1) positives of the group are expected before it:

    .. math:: \sum_{j=1}^{m} \frac{r}{t} \cdot \frac{b + 1 + (j - 1)(r - 1)/(t - 1)}{n + j}

    With harmonic numbers H, the two sums are :math:`\sum_j 1/(n+j) = H_{n+m} - H_n =: h` and
    :math:`\sum_j (j-1)/(n+j) = m - (n + 1) h`.
    """
    groups = ranks.groups
    remaining = cutoffs[groups.query] - groups.before
    # The first few ranks reach hardly any positive of most queries: nothing is computed for the others.
    reached = np.flatnonzero(remaining > 0)
    before, size, positives_before = groups.before[reached], groups.size[reached], groups.positives_before[reached]
    terms = (positives_before + 1) / (before + 1)
    tied = np.flatnonzero(size > 1)
    if len(tied):
        before, size, positives_before = before[tied], size[tied], positives_before[tied]
        positives, inside = groups.positives[reached][tied], np.minimum(remaining[reached][tied], size)
        harmonic = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, ranks.candidates.max() + 1))])
        sums = harmonic[before + inside] - harmonic[before]
        slope = (positives - 1) / (size - 1)
        terms[tied] = positives / size * ((positives_before + 1) * sums + slope * (inside - (before + 1) * sums))
    return ranks.sum_by_query(groups.query[reached], terms)


@score("ap")
class AveragePrecision(Score):
    """Average precision over the full ranking."""

    basis = "ranks"
    definition = "mean over queries of (1/R) sum of Prec(i) rel(i) over the whole gallery"

    def __call__(self, ranks: Ranks) -> Floats:
        """One value per query."""
        return ranks.per_positive(expected_precision_sum(ranks, ranks.candidates))


@score("map@r")
class MAPAtR(Score):
    """MAP@R of Musgrave et al., A Metric Learning Reality Check, arXiv:2003.08505."""

    basis = "ranks"
    definition = "mean over queries of (1/R) sum of Prec(i) rel(i) over the R nearest"

    def __call__(self, ranks: Ranks) -> Floats:
        """One value per query."""
        return ranks.per_positive(expected_precision_sum(ranks, ranks.positives))


@score("map@c")
class MAPAtC(Score):
    """mAP@C as the code of Roth et al. (arXiv:2002.08473) computes it for its tables; at most (k_c - 1) / k_c."""

    basis = "ranks"
    definition = "mean over queries of (1/k_c) sum of Prec(i) rel(i) over the k_c nearest; k_c counts the query"

    def __call__(self, ranks: Ranks) -> Floats:
        """One value per query."""
        return expected_precision_sum(ranks, ranks.positives + 1) / (ranks.positives + 1)


@score("map@1000")
class MAPAt1000(Score):
    """mAP@1000 as the code of Roth et al. (arXiv:2002.08473) computes it; over all neighbours if fewer than 1,000."""

    basis = "ranks"
    definition = "mean over queries of (1/k_c) sum of Prec(i) rel(i) over the 1000 nearest; k_c counts the query"

    def __call__(self, ranks: Ranks) -> Floats:
        """One value per query."""
        return expected_precision_sum(ranks, ranks.everywhere(1000)) / (ranks.positives + 1)
