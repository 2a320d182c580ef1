"""Lifted structure loss: soft least similar positive against soft most similar negative."""

from typing import Literal

from unseen.core.checks import check_choice
from unseen.core.registry import loss
from unseen.losses.base import PairLoss
from unseen.pairs.functional import log_sum_exp, masked_mean, masked_sum
from unseen.pairs.pair_terms import anchors_of
from unseen.pairs.pairs import Pairs
from unseen.pairs.tuples import LossOutput, Miner, PairMasks, Triplets, as_masks


def lifted_structure(pairs: Pairs, chosen: PairMasks, *, reduction: Literal["sum", "mean"]) -> LossOutput:
    """Sum or mean of the hinges of the anchors; see `LiftedStructure` for the formula."""
    anchors = anchors_of(pairs, chosen)
    pull, push = log_sum_exp(pairs.similarity, chosen, scale=(-1, 1), largest=1)
    hinge = (pull + push).relu()
    reduce = masked_sum if reduction == "sum" else masked_mean
    return anchors.output(reduce(hinge, anchors.is_complete), is_active=hinge > 0)


@loss("lifted_structure")
class LiftedStructure(PairLoss):
    r"""Lifted structure loss: hinge on log-sum-exp of positive and negative similarities.

    .. math:: \sum_i \Bigl[\log \sum_{k \in P_i} e^{\lambda - s_{ik}}
                         + \log \sum_{k \in N_i} e^{s_{ik} - \lambda}\Bigr]_+

    =============  ==========================================================================
    s_ik           cosine similarity of embeddings i and k
    P_i, N_i       chosen positives and negatives of anchor i: those of the miner, or all
    lambda         cancels, so it is not a setting
    ``reduction``  "sum" over the anchors, or "mean" over those with both kinds of pair
    =============  ==========================================================================

    An anchor with 8 pairs (p, n) or more always has a gradient: its bracket is at least log(\|P_i\| \|N_i\|) - 2. Its
    pairs then have weights softmax(-s) among the positives and softmax(s) among the negatives. There is no margin: an
    anchor with one negative, farther than its one positive (``miners.SemiHard``), has no gradient.

    Shape:      n embeddings -> scalar of their dtype (at least float32)
    Empty:      anchors without a chosen positive or negative are skipped; zero connected to the graph if none is left
    Reference:  Qi et al., A Simple and Effective Framework for Pairwise Deep Metric Learning, ECCV 2020,
                arXiv:1912.11194, eq. 3; after Oh Song et al., Deep Metric Learning via Lifted Structured Feature
                Embedding, CVPR 2016, arXiv:1511.06452
    Differs:    an anchor is not its own positive. Oh Song et al. join the negatives of both ends of a positive
                pair and use raw distances; the code of Qi et al. has a third form, over the whole batch
    """

    def __init__(self, *, reduction: Literal["sum", "mean"] = "sum", miner: Miner | None = None) -> None:
        super().__init__()
        check_choice("LiftedStructure", "reduction", reduction, ("sum", "mean"))
        self.miner = miner
        self.reduction: Literal["sum", "mean"] = reduction

    def compute(self, pairs: Pairs, chosen: Triplets | PairMasks, key: int | None = None) -> LossOutput:
        """Loss over the chosen pairs."""
        return lifted_structure(pairs, as_masks(pairs, chosen), reduction=self.reduction)
