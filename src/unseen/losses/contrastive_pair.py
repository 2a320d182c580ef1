"""Contrastive loss pair by pair: distances of positives, and what negatives lack to a margin, in one mean."""

import torch
from torch import Tensor

from unseen.core.checks import check_above, check_at_least, check_choice
from unseen.core.registry import loss
from unseen.losses.base import PairLoss
from unseen.pairs.pair_terms import PairTerms, by_sign, mean_of, terms_of
from unseen.pairs.pairs import Pairs
from unseen.pairs.tuples import LossOutput, Miner, PairMasks, Triplets


def contrastive_pair(pairs: Pairs, *, positive_margin: float, negative_margin: float, squared: bool) -> Tensor:
    """The contrastive loss of every pair; formula and symbols are with `ContrastivePair`."""
    sign, offset = by_sign(pairs, 1, -1), by_sign(pairs, -positive_margin, negative_margin)
    hinge = torch.addcmul(offset, sign, pairs.distance).relu()  # d - m for positives, gamma - d for negatives
    return hinge.square() / 2 if squared else hinge


@loss("contrastive_pair")
class ContrastivePair(PairLoss):
    r"""Distances of positives and what negatives lack to a margin, averaged over pairs.

    .. math:: \frac1{|P| + |N|} \Bigl( \sum_{(i,j) \in P} [d_{ij} - m]_+ + \sum_{(i,j) \in N} [\gamma - d_{ij}]_+ \Bigr)

    =============  ======================================================================
    d_ij           Euclidean distance of the normalised embeddings i and j
    P, N           chosen pairs of one class, of two classes: the miner's, or all pairs
    m, gamma       ``positive_margin`` (>= 0), the distance that positives may keep, and
                   ``negative_margin`` (> 0), the distance that negatives should reach
    ``squared``    each term becomes half its square, as Hadsell et al. write it
    =============  ======================================================================

    Shape:      n embeddings -> scalar of their dtype (at least float32)
    Empty:      zero connected to the graph if there is no pair
    Reference:  Hadsell et al., Dimensionality Reduction by Learning an Invariant Mapping, CVPR 2006
    Differs:    un-squared distances by default; one mean over all pairs, where ``Contrastive`` takes one mean over
                positives and one over negatives. No similarity is neutral for it, so it has no pseudo-pairs
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
        """The losses of all pairs."""
        values = contrastive_pair(
            pairs,
            positive_margin=self.positive_margin,
            negative_margin=self.negative_margin,
            squared=self.squared,
        )
        return terms_of(pairs, values)

    def outcome(self, pairs: Pairs, chosen: Triplets | PairMasks, key: int | None = None) -> LossOutput:
        """The mean over the chosen pairs."""
        return mean_of(pairs, self.terms(pairs), chosen)
