"""Margin of pairs: what the similarity of a pair lacks to the right side of a threshold, by a margin."""

from torch import Tensor

from unseen.core.checks import check_at_least, check_between
from unseen.core.registry import loss
from unseen.losses.base import PairLoss
from unseen.pairs.pair_terms import PairTerms, by_sign, mean_of, terms_of
from unseen.pairs.pairs import Pairs
from unseen.pairs.tuples import LossOutput, Miner, PairMasks, Triplets


def margin_pair(pairs: Pairs, *, margin: float, threshold: float) -> Tensor:
    """The hinge of every pair; formula and symbols are with `MarginPair`."""
    sign = by_sign(pairs, 1, -1)
    return (margin + sign * (threshold - pairs.similarity)).relu()


@loss("margin_pair")
class MarginPair(PairLoss):
    r"""Hinges of similarities about a threshold, averaged over pairs.

    .. math:: \frac1{|C|} \sum_{(i,j) \in C} [m + y_{ij} (\lambda - s_{ij})]_+

    =========  ============================================================================
    s_ij       cosine similarity of embeddings i and j
    y_ij       +1 for pairs of one class, -1 for pairs of two
    C          the chosen pairs: the miner's, or all
    m          ``margin`` (>= 0), which is kept on either side of the threshold
    lambda     ``threshold``, the similarity that counts as neutral
    =========  ============================================================================

    Shape:      n embeddings -> scalar of their dtype (at least float32)
    Empty:      zero connected to the graph if there is no pair
    Reference:  Qi et al., A Simple and Effective Framework for Pairwise Deep Metric Learning, ECCV 2020,
                arXiv:1912.11194
    Differs:    y is +1 or -1 where the paper's text has 1 or 0; alone this is the paper's average baseline, and its
                weighted forms are ``Robust`` around it
    """

    def __init__(self, *, margin: float = 0.2, threshold: float = 0.5, miner: Miner | None = None) -> None:
        super().__init__()
        check_at_least("MarginPair", "margin", margin, 0)
        check_between("MarginPair", "threshold", threshold, -1, 1)
        self.margin, self.threshold, self.miner = margin, threshold, miner

    def terms(self, pairs: Pairs) -> PairTerms:
        """The hinges of all pairs; at the threshold both kinds of pair have the margin as their loss."""
        values = margin_pair(pairs, margin=self.margin, threshold=self.threshold)
        return terms_of(pairs, values, (self.margin, self.margin))

    def outcome(self, pairs: Pairs, chosen: Triplets | PairMasks, key: int | None = None) -> LossOutput:
        """The mean over the chosen pairs."""
        return mean_of(pairs, self.terms(pairs), chosen)
