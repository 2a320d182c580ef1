"""Margin loss of single pairs: a hinge on the similarity around a threshold."""

from torch import Tensor

from unseen.core.checks import check_at_least, check_between
from unseen.core.registry import loss
from unseen.losses.base import PairLoss
from unseen.pairs.pair_terms import PairTerms, by_sign, mean_of, terms_of
from unseen.pairs.pairs import Pairs
from unseen.pairs.tuples import LossOutput, Miner, PairMasks, Triplets


def margin_pair(pairs: Pairs, *, margin: float, threshold: float) -> Tensor:
    """Hinge of every pair; see `MarginPair` for the formula."""
    sign = by_sign(pairs, 1, -1)
    return (margin + sign * (threshold - pairs.similarity)).relu()


@loss("margin_pair")
class MarginPair(PairLoss):
    r"""Margin loss of pairs: hinges on similarities around a threshold, mean over pairs.

    .. math:: \frac1{|C|} \sum_{(i,j) \in C} [m + y_{ij} (\lambda - s_{ij})]_+

    =========  ============================================================================
    s_ij       cosine similarity of embeddings i and j
    y_ij       +1 for positive pairs, -1 for negative pairs
    C          chosen pairs: those of the miner, or all
    m          ``margin`` (>= 0), on either side of the threshold
    lambda     ``threshold``, neutral similarity
    =========  ============================================================================

    Shape:      n embeddings -> scalar of their dtype (at least float32)
    Empty:      zero connected to the graph if there is no pair
    Reference:  Qi et al., A Simple and Effective Framework for Pairwise Deep Metric Learning, ECCV 2020,
                arXiv:1912.11194
    Differs:    y is +1 or -1 where the paper's text has 1 or 0; this is the average baseline of the paper; its
                weighted forms are ``Robust`` around it
    """

    def __init__(self, *, margin: float = 0.2, threshold: float = 0.5, miner: Miner | None = None) -> None:
        super().__init__()
        check_at_least("MarginPair", "margin", margin, 0)
        check_between("MarginPair", "threshold", threshold, -1, 1)
        self.margin, self.threshold, self.miner = margin, threshold, miner

    def terms(self, pairs: Pairs) -> PairTerms:
        """Hinges of all pairs; at the threshold they equal the margin."""
        values = margin_pair(pairs, margin=self.margin, threshold=self.threshold)
        return terms_of(pairs, values, (self.margin, self.margin))

    def compute(self, pairs: Pairs, chosen: Triplets | PairMasks, key: int | None = None) -> LossOutput:
        """Mean over the chosen pairs."""
        return mean_of(pairs, self.terms(pairs), chosen)
