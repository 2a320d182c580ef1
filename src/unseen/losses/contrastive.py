"""Contrastive loss: hinges on the distances of positive and negative pairs."""

import torch

from unseen.core.checks import check_above, check_at_least, check_choice
from unseen.core.registry import loss
from unseen.losses.base import PairLoss
from unseen.pairs.functional import listed_pair_hinges, pair_hinges
from unseen.pairs.pair_terms import counts_of
from unseen.pairs.pairs import Pairs
from unseen.pairs.tuples import LossOutput, Miner, PairMasks, Triplets


def contrastive(
    pairs: Pairs, chosen: Triplets | PairMasks, *, positive_margin: float, negative_margin: float, squared: bool
) -> LossOutput:
    """Contrastive loss over the chosen pairs; see `Contrastive` for the formula."""
    if isinstance(chosen, Triplets):
        bounds, num_triplets = (positive_margin, negative_margin), len(chosen.anchor)
        listed = listed_pair_hinges(pairs.similarity, chosen, bounds=bounds, squared=squared)
        return LossOutput(listed.total / max(1, num_triplets), 2 * num_triplets, listed.num_active)
    hinges = pair_hinges(pairs.distance, chosen, near=positive_margin, far=negative_margin, squared=squared)
    num_pairs = torch.stack(counts_of(pairs, chosen)).sum(1)  # positive, negative
    value = (hinges.total.sum(1) / num_pairs.clamp(min=1)).sum()
    return LossOutput(value, num_pairs, hinges.num_active)


@loss("contrastive")
class Contrastive(PairLoss):
    r"""Contrastive loss: hinges on d - m for positive and gamma - d for negative pairs.

    .. math:: \frac1{|P|} \sum_{(i,j) \in P} [d_{ij} - m]_+ + \frac1{|N|} \sum_{(i,j) \in N} [\gamma - d_{ij}]_+

    =============  ======================================================================
    d_ij           Euclidean distance of the normalised embeddings i and j
    P, N           chosen positive and negative pairs: those of the miner, or all
    m, gamma       ``positive_margin`` (>= 0), distance that positives may keep, and
                   ``negative_margin`` (> 0), distance that negatives should reach
    ``squared``    half the square of each term, as in Hadsell et al.
    =============  ======================================================================

    Shape:      n embeddings -> scalar of their dtype (at least float32)
    Empty:      without positive (negative) pairs the first (second) term is 0; zero connected to the graph without both
    Reference:  Hadsell et al., Dimensionality Reduction by Learning an Invariant Mapping, CVPR 2006
    Differs:    unsquared distances by default, as Roth et al. (arXiv:2002.08473) train it; two means, not one
    """

    def __init__(
        self,
        *,
        positive_margin: float = 0.0,
        negative_margin: float = 1.0,
        squared: bool = False,
        miner: Miner | None = None,
    ) -> None:
        super().__init__()
        check_at_least("Contrastive", "positive_margin", positive_margin, 0)
        check_above("Contrastive", "negative_margin", negative_margin, 0)
        check_choice("Contrastive", "squared", squared, (True, False))
        self.positive_margin, self.negative_margin, self.squared = positive_margin, negative_margin, squared
        self.miner = miner

    def compute(self, pairs: Pairs, chosen: Triplets | PairMasks, key: int | None = None) -> LossOutput:
        """Loss over the chosen pairs."""
        return contrastive(
            pairs,
            chosen,
            positive_margin=self.positive_margin,
            negative_margin=self.negative_margin,
            squared=self.squared,
        )
