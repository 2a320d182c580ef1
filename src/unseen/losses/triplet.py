"""Triplet: an anchor's positive must be nearer than its negative by a margin."""

from typing import Literal

import torch

from unseen.core.checks import check_above, check_choice
from unseen.core.registry import loss
from unseen.losses.base import PairLoss
from unseen.pairs.functional import distance_of, squared_distance_of
from unseen.pairs.hinges import over_all, with_slopes
from unseen.pairs.pairs import Pairs
from unseen.pairs.tuples import LossOutput, Miner, PairMasks, Triplets


def triplet(
    pairs: Pairs,
    chosen: Triplets | PairMasks,
    *,
    margin: float,
    squared: bool,
    reduction: Literal["all", "active"],
) -> LossOutput:
    """The triplet value over chosen triplets, or over all that the chosen pairs form; formula with `Triplet`."""
    if isinstance(chosen, PairMasks):
        total, used, active = over_all(pairs.squared_distance if squared else pairs.distance, chosen, margin)
        count = active if reduction == "active" else used
        return LossOutput(total / count.clamp(min=1), used, active)
    places = torch.stack((chosen.positive, chosen.negative)).add_(chosen.anchor * pairs.similarity.shape[1])
    similarity = pairs.similarity.detach().take(places)
    distance = squared_distance_of(similarity) if squared else distance_of(similarity)
    hinge = (distance[0] - distance[1]).add_(margin).relu_()
    is_active = hinge > 0
    number = len(chosen.anchor)
    count = max(1, number) if reduction == "all" else is_active.sum().clamp_(min=1)
    # Slopes of the distances, which end where rounding takes a similarity beyond 1: -2 and 2, or -1/d and 1/d.
    if squared:
        slopes = (is_active & (similarity <= 1)).to(hinge.dtype).mul_(2).div_(count)
    else:
        slopes = (is_active & (similarity < 1)) / distance.mul_(count)
    slopes[0].neg_()
    return LossOutput(with_slopes(hinge.sum() / count, pairs.similarity, places, slopes), number, is_active)


@loss("triplet")
class Triplet(PairLoss):
    r"""What the positive of a triplet lacks to be nearer than its negative by a margin.

    .. math:: \frac1{|T|} \sum_{(a,p,n) \in T} [D_{ap} - D_{an} + \gamma]_+

    =============  ==============================================================================
    D              squared Euclidean distance of normalised embeddings; un-squared: ``squared=False``
    T              the miner's triplets; without a miner all triplets of the batch
    gamma          ``margin`` (> 0), by which the negative should be farther
    ``reduction``  mean over "all" triplets, or over the "active" ones only (those above 0)
    =============  ==============================================================================

    Shape:      n embeddings -> scalar of their dtype (at least float32)
    Empty:      an anchor without positives or negatives has no triplet; zero connected to the graph if none has
    Reference:  Schroff et al., FaceNet: A Unified Embedding for Face Recognition and Clustering, CVPR 2015,
                arXiv:1503.03832
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

    def outcome(self, pairs: Pairs, chosen: Triplets | PairMasks, key: int | None = None) -> LossOutput:
        """The value over the chosen triplets."""
        return triplet(pairs, chosen, margin=self.margin, squared=self.squared, reduction=self.reduction)
