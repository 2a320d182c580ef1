"""Circle: each similarity is pushed to its optimum, the harder the farther it is from there."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import softplus

from unseen.core.checks import check_above, check_between
from unseen.core.registry import loss
from unseen.losses.calls import OverPairs
from unseen.losses.pairs import Pairs
from unseen.losses.tuples import Miner, Outcome, PairMasks, Triplets, as_masks


def _shares(logits: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Log of the sum of exponentials over the mask, and each one's share of it; overwrites. 0 in an empty row."""
    largest = logits.masked_fill_(~mask, -torch.inf).amax(1, keepdim=True)
    exponentials = logits.sub_(largest.masked_fill_(largest == -torch.inf, 0)).exp_()
    total = exponentials.sum(1, keepdim=True)
    total.masked_fill_(total == 0, 1)
    return (largest + total.log()).squeeze(1), exponentials.div_(total)


class _AnchorCosts(torch.autograd.Function):
    """The cost of each anchor, with the gradient that holds the weights, in place where autograd would keep copies.

    Weight times excess is a difference of squares: (1 + m - s)(1 - m - s) = (1 - s)^2 - m^2 for positives, and
    (s + m)(s - m) = s^2 - m^2 for negatives; where the bracket of a weight is empty, s stops there and both are 0.
    """

    @staticmethod
    def forward(
        context: Any, similarity: Tensor, positive: Tensor, negative: Tensor, margin: float, scale: float
    ) -> Tensor:
        lack = torch.rsub(similarity, 1).clamp_(min=-margin)
        excess = similarity.clamp(min=-margin)
        pull, pull_shares = _shares(lack.square().sub_(margin**2).mul_(scale), positive)
        push, push_shares = _shares(excess.square().sub_(margin**2).mul_(scale), negative)
        total = pull + push
        is_kept = positive.any(1) & negative.any(1)
        pull_slopes = pull_shares.mul_(lack.add_(margin))
        slopes = push_shares.mul_(excess.add_(margin)).sub_(pull_slopes)
        context.save_for_backward(slopes, scale * total.sigmoid() * is_kept)
        # Beyond the threshold softplus is taken as linear; exp(-40) is below the precision of float64.
        return softplus(total, threshold=40) * is_kept

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None, None, None, None]:
        slopes, factor = context.saved_tensors
        return slopes * (gradient * factor).unsqueeze(1), None, None, None, None


def circle(pairs: Pairs, chosen: PairMasks, *, margin: float, scale: float) -> Outcome:
    """The softly counted violations of each anchor, averaged; formula and symbols are with `Circle`."""
    costs = _AnchorCosts.apply(pairs.similarity, chosen.positive, chosen.negative, margin, scale)
    is_kept = chosen.positive.any(1) & chosen.negative.any(1)
    used = ((chosen.positive | chosen.negative).sum(1) * is_kept).sum()
    return Outcome(costs.sum() / is_kept.sum().clamp(min=1), used, used)


@loss("circle")
class Circle(OverPairs):
    r"""Mean over anchors of how far their similarities are from 1 and 0, softly counted.

    .. math:: \frac1n \sum_i \log\bigl[1 + \sum_{k \in N_i} e^{\gamma \alpha_{ik} (s_{ik} - m)}
              \sum_{k \in P_i} e^{-\gamma \alpha_{ik} (s_{ik} - 1 + m)}\bigr], \quad
              \alpha_{ik} = \begin{cases} [1 + m - s_{ik}]_+ & k \in P_i \\ [s_{ik} + m]_+ & k \in N_i \end{cases}

    =============  ==========================================================================
    s_ik           cosine similarity of embeddings i and k
    P_i, N_i       chosen pairs of anchor i, of one class and of two: the miner's, or all
    alpha          the pace of each pair; a constant for the gradient
    m              ``margin`` (0 to 1): the radius of the boundary and its slack
    gamma          ``scale`` (> 0)
    n              anchors with a chosen positive and a chosen negative
    =============  ==========================================================================

    Shape:      n embeddings -> scalar of their dtype (at least float32)
    Empty:      an anchor without chosen positives or without chosen negatives is left out; zero connected to the
                graph if none has both
    Reference:  Sun et al., Circle Loss, CVPR 2020, arXiv:2002.10857
    Differs:    nothing; as alpha is no part of the gradient, the gradient is not that of the value
    """

    def __init__(self, *, margin: float = 0.4, scale: float = 80.0, miner: Miner | None = None) -> None:
        super().__init__()
        check_between("Circle", "margin", margin, 0, 1)
        check_above("Circle", "scale", scale, 0)
        self.margin, self.scale, self.miner = margin, scale, miner

    def outcome(self, pairs: Pairs, chosen: Triplets | PairMasks, key: int | None = None) -> Outcome:
        """The value over the chosen pairs."""
        return circle(pairs, as_masks(pairs, chosen), margin=self.margin, scale=self.scale)
