"""Contrastive loss of single pairs, averaged over all pairs together."""

import torch
from torch import Tensor

from unseen.core.checks import check_above, check_at_least, check_choice
from unseen.core.registry import loss
from unseen.losses.base import PairLoss
from unseen.pairs.pair_terms import PairTerms, by_sign, mean_of, terms_of
from unseen.pairs.pairs import Pairs
from unseen.pairs.tuples import LossOutput, Miner, PairMasks, Triplets


def contrastive_pair(pairs: Pairs, *, positive_margin: float, negative_margin: float, squared: bool) -> Tensor:
    """Contrastive loss of every pair; see `ContrastivePair` for the formula."""
    sign, offset = by_sign(pairs, 1, -1), by_sign(pairs, -positive_margin, negative_margin)
    hinge = torch.addcmul(offset, sign, pairs.distance).relu()  # d - m for positives, gamma - d for negatives
    return hinge.square() / 2 if squared else hinge


@loss("contrastive_pair")
class ContrastivePair(PairLoss):
    r"""Contrastive loss as one mean over all pairs, positive and negative alike.

    .. math:: \frac1{|P| + |N|} \Bigl( \sum_{(i,j) \in P} [d_{ij} - m]_+ + \sum_{(i,j) \in N} [\gamma - d_{ij}]_+ \Bigr)

    =============  ======================================================================
    d_ij           Euclidean distance of the normalised embeddings i and j
    P, N           chosen positive and negative pairs: those of the miner, or all
    m, gamma       ``positive_margin`` (>= 0), distance that positives may keep, and
                   ``negative_margin`` (> 0), distance that negatives should reach
    ``squared``    half the square of each term, as in Hadsell et al.
    =============  ======================================================================

    Shape:      n embeddings -> scalar of their dtype (at least float32)
    Empty:      zero connected to the graph if there is no pair
    Reference:  Hadsell et al., Dimensionality Reduction by Learning an Invariant Mapping, CVPR 2006
    Differs:    unsquared distances by default; one mean over all pairs, where ``Contrastive`` takes one mean over
                positives and one over negatives. It has no neutral similarity, hence no pseudo-pairs
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
        check_at_least("ContrastivePair", "positive_margin", positive_margin, 0)
        check_above("ContrastivePair", "negative_margin", negative_margin, 0)
        check_choice("ContrastivePair", "squared", squared, (True, False))
        self.positive_margin, self.negative_margin, self.squared = positive_margin, negative_margin, squared
        self.miner = miner

    def terms(self, pairs: Pairs) -> PairTerms:
        """Losses of all pairs."""
        values = contrastive_pair(
            pairs, positive_margin=self.positive_margin, negative_margin=self.negative_margin, squared=self.squared
        )
        return terms_of(pairs, values)

    def compute(self, pairs: Pairs, chosen: Triplets | PairMasks, key: int | None = None) -> LossOutput:
        """Mean over the chosen pairs."""
        return mean_of(pairs, self.terms(pairs), chosen)
