"""Triplet: an anchor's positive must be nearer than its negative by a margin."""

from typing import Literal

import torch
from torch import Tensor

from unseen.core.checks import check_above, check_choice
from unseen.core.registry import loss
from unseen.losses.calls import OverPairs
from unseen.losses.pairs import Pairs, distance_of, masked_sum, squared_distance_of
from unseen.losses.tuples import Miner, Outcome, PairMasks, Triplets


def triplet(
    pairs: Pairs,
    chosen: Triplets | PairMasks,
    *,
    margin: float,
    squared: bool,
    reduction: Literal["all", "active"],
) -> Outcome:
    """The triplet value over chosen triplets, or over all that the chosen pairs form; formula with `Triplet`."""
    if isinstance(chosen, Triplets):
        columns = torch.cat((chosen.positive, chosen.negative))
        similarity = pairs.similarity_at(chosen.anchor.repeat(2), columns)
        distance = squared_distance_of(similarity) if squared else distance_of(similarity)
        near, far = distance.view(2, -1)
        hinge = (near - far + margin).relu()
        total, active = hinge.sum(), (hinge > 0).sum()
        used: Tensor | int = len(chosen.anchor)
    else:
        total, active = over_all(pairs.squared_distance if squared else pairs.distance, chosen, margin)
        used = (chosen.positive.sum(1) * chosen.negative.sum(1)).sum()
    count = active if reduction == "active" else used
    return Outcome(total / (count.clamp(min=1) if isinstance(count, Tensor) else max(1, count)), used, active)


def over_all(distance: Tensor, chosen: PairMasks, margin: float) -> tuple[Tensor, Tensor]:
    """Sum of the hinges over all (a, p, n) and the number of active ones, in O(n^2 log n) and n x n memory.

    The sum is linear in the distances once it is known which triplets are active: a positive counts once for each
    negative nearer than itself plus the margin, a negative once for each such positive. Sorted rows give both counts.
    """
    with torch.no_grad():
        bound = (distance.detach() + margin).masked_fill(~chosen.positive, torch.inf)
        far = distance.detach().masked_fill(~chosen.negative, torch.inf)
        # Both counts compare the same two rounded numbers, far < bound, so they agree to the last triplet.
        nearer = torch.searchsorted(far.sort(1).values, bound).masked_fill_(~chosen.positive, 0)
        inactive = torch.searchsorted(bound.sort(1).values, far, right=True)
        wider = (chosen.positive.sum(1, keepdim=True) - inactive).masked_fill_(~chosen.negative, 0)
        active = nearer.sum()
    weights = (nearer - wider).to(distance.dtype)
    return masked_sum(distance, weights) + margin * active.to(distance.dtype), active


@loss("triplet")
class Triplet(OverPairs):
    r"""What the positive of a triplet lacks to be nearer than its negative by a margin.

    .. math:: \frac1{|T|} \sum_{(a,p,n) \in T} [D_{ap} - D_{an} + \gamma]_+

    =============  ==============================================================================
    D              squared Euclidean distance of normalised embeddings; un-squared: ``squared=False``
    T              the miner's triplets; without a miner all triplets of the batch
    gamma          ``margin`` (> 0)
    ``reduction``  mean over "all" triplets, or over the "active" ones only (those above 0)
    =============  ==============================================================================

    Shape:      n embeddings -> scalar of their dtype (at least float32)
    Empty:      an anchor without positives or negatives has no triplet; zero connected to the graph if none has
    Reference:  Schroff et al., FaceNet, CVPR 2015, arXiv:1503.03832
    Differs:    Roth et al. (arXiv:2002.08473) print un-squared distances; their code and this default square them
    """

    def __init__(
        self,
        *,
        margin: float = 0.2,
        squared: bool = True,
        reduction: Literal["all", "active"] = "all",
        miner: Miner | None = None,
    ) -> None:
        super().__init__()
        check_above("Triplet", "margin", margin, 0)
        check_choice("Triplet", "squared", squared, (True, False))
        check_choice("Triplet", "reduction", reduction, ("all", "active"))
        self.margin, self.squared, self.miner = margin, squared, miner
        self.reduction: Literal["all", "active"] = reduction

    def outcome(self, pairs: Pairs, chosen: Triplets | PairMasks, key: int | None = None) -> Outcome:
        """The value over the chosen triplets."""
        return triplet(pairs, chosen, margin=self.margin, squared=self.squared, reduction=self.reduction)
