"""Histogram loss: overlap of the similarity histograms of positive and negative pairs."""

from unseen.core.checks import check_count
from unseen.core.registry import loss
from unseen.losses.base import PairLoss
from unseen.pairs.functional import soft_histogram
from unseen.pairs.pairs import Pairs
from unseen.pairs.tuples import LossOutput, Miner, PairMasks, Triplets, as_masks


def histogram(pairs: Pairs, chosen: PairMasks, *, num_nodes: int) -> LossOutput:
    """Overlap of the two soft histograms of similarity; see `Histogram` for the formula."""
    heights, counts = soft_histogram(pairs.similarity, chosen, num_nodes)
    positive, negative = heights
    value = (negative * positive.cumsum(0)).sum().to(pairs.similarity.dtype)
    # Moving up, a positive leaves the negatives of its lower node, a negative meets the positives of its upper one.
    num_active = counts[0][negative != 0].sum() + counts[1, :-1][positive[1:] != 0].sum()
    return LossOutput(value, counts.sum(), num_active)


@loss("histogram")
class Histogram(PairLoss):
    r"""Histogram loss: probability that a negative pair is more similar than a positive one.

    .. math:: \sum_{r=1}^R h^-_r \sum_{q \le r} h^+_q, \qquad
              h^\pm_r = \mathrm{mean}_{(i,j)} \max\bigl(0, 1 - |s_{ij} - t_r| / \Delta\bigr)

    =============  ==============================================================================
    s_ij           cosine similarity of embeddings i and j, clipped to -1 .. 1
    h+, h-         soft histograms of the chosen positive and negative pairs: those of the miner, or all
    t_r            nodes from -1 to 1 in steps of Delta = 2 / (R - 1)
    R              ``num_nodes`` (>= 2); nodes, not bins between them
    =============  ==============================================================================

    Shape:      n embeddings -> scalar of their dtype (at least float32), from 0 to 1
    Empty:      zero connected to the graph without positive or without negative pairs
    Reference:  Ustinova and Lempitsky, Learning Deep Embeddings with Histogram Loss, NIPS 2016, arXiv:1611.00822
    Differs:    pairs are counted in both orders, which does not change the mean; node weights are exact for every R,
                where code that compares floats is exact only if Delta is a power of two
    """

    def __init__(self, *, num_nodes: int = 65, miner: Miner | None = None) -> None:
        super().__init__()
        check_count("Histogram", "num_nodes", num_nodes, 2)
        self.num_nodes, self.miner = num_nodes, miner

    def compute(self, pairs: Pairs, chosen: Triplets | PairMasks, key: int | None = None) -> LossOutput:
        """Loss over the chosen pairs."""
        return histogram(pairs, as_masks(pairs, chosen), num_nodes=self.num_nodes)
