"""Triplet loss: hinge on the distances of an anchor to a positive and a negative."""

from typing import Literal

from unseen.core.checks import check_above, check_choice
from unseen.core.registry import loss
from unseen.losses.base import PairLoss
from unseen.pairs.functional import Measure, at_least_one, listed_comparisons, triplet_hinges
from unseen.pairs.pairs import Pairs
from unseen.pairs.tuples import LossOutput, Miner, PairMasks, Triplets


def triplet(
    pairs: Pairs, chosen: Triplets | PairMasks, *, margin: float, squared: bool, reduction: Literal["all", "active"]
) -> LossOutput:
    """Triplet loss over the chosen triplets, or all that the chosen pairs form; see `Triplet` for the formula."""
    if isinstance(chosen, Triplets):
        near, far = (chosen.anchor, chosen.positive), (chosen.anchor, chosen.negative)
        measure: Measure = "squared" if squared else "distance"
        hinges = listed_comparisons(pairs.similarity, near, far, margin=margin, measure=measure)
    else:
        distance = pairs.squared_distance if squared else pairs.distance
        hinges = triplet_hinges(distance, chosen.positive, chosen.negative, margin)
    count = hinges.num_active if reduction == "active" else hinges.num_terms
    return LossOutput(hinges.total / at_least_one(count), hinges.num_terms, hinges.num_active)


@loss("triplet")
class Triplet(PairLoss):
    r"""Triplet loss: hinge on d(a, p) - d(a, n) + margin over mined or all triplets.

    .. math:: \frac1{|T|} \sum_{(a,p,n) \in T} [D_{ap} - D_{an} + \gamma]_+

    =============  ==============================================================================
    D              squared Euclidean distance of normalised embeddings; unsquared with ``squared=False``
    T              triplets of the miner, or all triplets of the batch
    gamma          ``margin`` (> 0), by which the negative should be farther
    ``reduction``  mean over "all" triplets, or over the "active" ones (above 0)
    =============  ==============================================================================

    Shape:      n embeddings -> scalar of their dtype (at least float32)
    Empty:      anchors without positives or negatives have no triplet; zero connected to the graph without triplets
    Reference:  Schroff et al., FaceNet: A Unified Embedding for Face Recognition and Clustering, CVPR 2015,
                arXiv:1503.03832
    Differs:    Roth et al. (arXiv:2002.08473) print unsquared distances; their code and this default square them
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

    def compute(self, pairs: Pairs, chosen: Triplets | PairMasks, key: int | None = None) -> LossOutput:
        """Loss over the chosen triplets."""
        return triplet(pairs, chosen, margin=self.margin, squared=self.squared, reduction=self.reduction)
