"""Chi-square ball: weights near the uniform ones, so the worst case is the mean plus a multiple of the deviation."""

import torch
from torch import Tensor

from unseen.core.checks import check_at_least
from unseen.core.registry import uncertainty
from unseen.pairs.functional import as_numbers
from unseen.pairs.pair_terms import PairTerms
from unseen.robust.worst_case import WorstCase, all_pairs, weighed

ROUNDING = 1e-13
"""By how much float64 may miss 0 in the sums of the exact weights."""


def closed_form(values: Tensor, mask: Tensor, rho: float) -> tuple[Tensor, Tensor]:
    """The worst weights when none has to be cut at 0, and whether that is so; float64."""
    # 1/n for each pair, so that everything stays on the pairs by a product; those booleans would take longer.
    count = mask.count_nonzero().clamp(min=1)
    uniform = as_numbers(mask, torch.float64).div_(count)
    # Measured from the largest loss, equal losses deviate by exactly 0.
    deviation = (values.double() - values.masked_fill(~mask, -torch.inf).amax()).masked_fill_(~mask, 0)
    deviation -= (deviation * uniform).sum()
    # Entries outside the mask are now at or above 0: they are not the least, and weigh 0 in the sum.
    length = (deviation.square().mul_(uniform).sum() * count).sqrt()  # sqrt(n Var)
    is_valid = (2 * rho) ** 0.5 * -deviation.amin() <= length
    slope = (2 * rho) ** 0.5 / length.masked_fill(length == 0, torch.inf)
    return deviation.mul_(slope).add_(1).mul_(uniform), is_valid


def exact(values: Tensor, rho: float) -> Tensor:
    """The worst weights of a vector of losses, at any size of the ball; float64.

    Only the k largest losses weigh, for some k. With the cut at 0 left out and only those k allowed, the best weights
    are 1/k + c (l - mean_k) with c from the ball's edge; k is the largest number for which they are not negative, as
    more allowed losses never lower that optimum and one without negative weights is an optimum of the whole problem.
    """
    gap, order = (values - values.max()).sort(descending=True, stable=True)
    k = torch.arange(1, len(gap) + 1, dtype=gap.dtype, device=gap.device)
    mean = gap.cumsum(0) / k
    spread = (gap.square().cumsum(0) - k * mean.square()).clamp(min=0)  # sum of (l - mean_k)^2
    room = (2 * rho + len(gap)) / len(gap) ** 2 - 1 / k  # what sum p^2 may exceed 1/k by
    # Equal losses have no spread: their weights are equal whatever the room.
    is_equal = gap == gap[0]
    slope = (room.clamp(min=0) / spread.masked_fill(is_equal, torch.inf)).sqrt()
    is_allowed = (room >= -ROUNDING) & (1 / k + slope * (gap - mean) >= -ROUNDING / k)
    support = int(is_allowed.nonzero().amax()) + 1
    top = gap[:support]
    deviation = top - top.mean()
    length = deviation.square().sum().sqrt()
    scale = room[support - 1].clamp(min=0).sqrt() / length if length > 0 else length
    weights = torch.zeros_like(gap)
    weights[order[:support]] = (1 / support + scale * deviation).clamp(min=0)
    return weights / weights.sum()


@uncertainty("chi_square")
class ChiSquare:
    r"""The mean of the losses plus a multiple of their standard deviation, cut where weights would turn negative.

    .. math:: F = \max_{p \in \Delta,\ \sum_i (n p_i - 1)^2 \le 2 \rho} \sum_i p_i l_i
                = \bar l + \sqrt{2 \rho \mathrm{Var}(l) / n}
                \quad\text{if}\quad \sqrt{2 \rho}\,(\bar l - \min l) \le \sqrt{n \mathrm{Var}(l)}

    ==========  ==============================================================================================
    l_i, n      the losses of the unordered pairs, and their number
    rho         size of the ball (>= 0): 0 is the mean, and from 2 rho = n^2/m - n on, with m hardest pairs, it
                is the maximum
    ==========  ==============================================================================================

    Primal:     weights within a chi-square ball about the uniform ones
    Gradient:   weight (1 + sqrt(2 rho) (l_i - mean) / sqrt(n Var)) / n where the condition holds, else
                [1 + (l_i - eta) / nu]_+ / n, with eta and nu found exactly from the sorted losses; detached
    Empty:      0 without pairs
    Reference:  Qi et al., A Simple and Effective Framework for Pairwise Deep Metric Learning, ECCV 2020,
                arXiv:1912.11194 (variance regularisation); Namkoong and Duchi, Variance-based Regularization with
                Convex Objectives, NeurIPS 2017, arXiv:1610.02581
    Differs:    the paper has the closed form only; the exact weights take its place where its condition fails
    """

    def __init__(self, rho: float = 0.5) -> None:
        check_at_least("ChiSquare", "rho", rho, 0)
        self.rho = rho

    def worst_case(self, terms: PairTerms, *, key: int | None = None) -> WorstCase:
        """The worst weights of the ball, and the weighted loss."""
        values, mask = terms.values.detach(), all_pairs(terms)
        weights, is_valid = closed_form(values, mask, self.rho)
        if not is_valid:  # a branch, since sorting all pairs costs more than everything else and is hardly ever due
            weights = torch.zeros_like(weights).masked_scatter_(mask, exact(values[mask].double(), self.rho))
        return weighed(terms, weights.to(terms.values.dtype))
