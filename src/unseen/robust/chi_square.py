"""Chi-square ball around the uniform weights: the worst case is the mean plus a multiple of the deviation."""

import torch
from torch import Tensor

from unseen.core.checks import check_at_least
from unseen.core.registry import uncertainty
from unseen.pairs.functional import as_numbers
from unseen.pairs.pair_terms import PairTerms
from unseen.robust.worst_case import WorstCase, all_pairs, weighted

ROUNDING = 1e-13
"""Tolerance of float64 sums in the exact weights."""


def closed_form_weights(values: Tensor, mask: Tensor, rho: float) -> tuple[Tensor, Tensor]:
    """The worst-case weights if none has to be clipped at 0, and whether that is so; float64."""
    # 1/n for each pair: a product with it restricts sums to the pairs, faster than a boolean mask.
    count = mask.count_nonzero().clamp(min=1)
    uniform = as_numbers(mask, torch.float64).div_(count)
    # Relative to the largest loss, so that equal losses deviate by exactly 0.
    deviation = (values.double() - values.masked_fill(~mask, -torch.inf).amax()).masked_fill_(~mask, 0)
    deviation -= (deviation * uniform).sum()
    # Entries outside the mask are now at or above 0: they are not the minimum, and have weight 0 in the sum.
    length = (deviation.square().mul_(uniform).sum() * count).sqrt()  # sqrt(n Var)
    is_valid = (2 * rho) ** 0.5 * -deviation.amin() <= length
    slope = (2 * rho) ** 0.5 / length.masked_fill(length == 0, torch.inf)
    return deviation.mul_(slope).add_(1).mul_(uniform), is_valid


def exact_weights(values: Tensor, rho: float) -> Tensor:
    """The worst-case weights of a vector of losses, for any size of the ball; float64.

    For some k only the k largest losses have weights above 0. Without the constraint p >= 0, the optimum over those k
    is 1/k + c (l - mean_k), with c from the ball's boundary. The right k is the largest for which these weights are
    not negative: a larger support never lowers the optimum, and without negative weights it is optimal overall.
    """
    gap, order = (values - values.max()).sort(descending=True, stable=True)
    k = torch.arange(1, len(gap) + 1, dtype=gap.dtype, device=gap.device)
    mean = gap.cumsum(0) / k
    spread = (gap.square().cumsum(0) - k * mean.square()).clamp(min=0)  # sum of (l - mean_k)^2
    room = (2 * rho + len(gap)) / len(gap) ** 2 - 1 / k  # by how much sum p^2 may exceed 1/k
    # Equal losses have no spread: their weights are equal in any case.
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
    r"""Variance regularization: the mean loss plus a multiple of the standard deviation.

    .. math:: F = \max_{p \in \Delta,\ \sum_i (n p_i - 1)^2 \le 2 \rho} \sum_i p_i l_i
                = \bar l + \sqrt{2 \rho \mathrm{Var}(l) / n}
                \quad\text{if}\quad \sqrt{2 \rho}\,(\bar l - \min l) \le \sqrt{n \mathrm{Var}(l)}

    ==========  ==============================================================================================
    l_i, n      the losses of the unordered pairs, and their number
    rho         size of the ball (>= 0): 0 is the mean; from 2 rho = n^2/m - n on, with m equally hardest pairs, it
                is the maximum
    ==========  ==============================================================================================

    Primal:     weights within a chi-square ball about the uniform ones
    Gradient:   weight (1 + sqrt(2 rho) (l_i - mean) / sqrt(n Var)) / n where the condition holds, else
                [1 + (l_i - eta) / nu]_+ / n, with eta and nu found exactly from the sorted losses; detached
    Empty:      0 without pairs
    Reference:  Qi et al., A Simple and Effective Framework for Pairwise Deep Metric Learning, ECCV 2020,
                arXiv:1912.11194 (variance regularisation); Namkoong and Duchi, Variance-based Regularization with
                Convex Objectives, NeurIPS 2017, arXiv:1610.02581
    Differs:    the paper has the closed form only; exact weights replace it where its condition fails
    """

    def __init__(self, rho: float = 0.5) -> None:
        check_at_least("ChiSquare", "rho", rho, 0)
        self.rho = rho

    def worst_case(self, terms: PairTerms, *, key: int | None = None) -> WorstCase:
        """The worst-case weights of the ball, and the weighted loss."""
        values, mask = terms.values.detach(), all_pairs(terms)
        weights, is_valid = closed_form_weights(values, mask, self.rho)
        if not is_valid:  # a branch: sorting all pairs costs more than all the rest and is rarely needed
            weights = torch.zeros_like(weights).masked_scatter_(mask, exact_weights(values[mask].double(), self.rho))
        return weighted(terms, weights.to(terms.values.dtype))
