"""Lifted structure: each anchor's soft least similar positive against its soft most similar negative."""

from typing import Literal

from unseen.core.checks import check_choice
from unseen.core.registry import loss
from unseen.losses.base import PairLoss
from unseen.pairs.functional import log_sum_exp
from unseen.pairs.pair_terms import anchors_of
from unseen.pairs.pairs import Pairs
from unseen.pairs.tuples import LossOutput, Miner, PairMasks, Triplets, as_masks


def lifted_structure(pairs: Pairs, chosen: PairMasks, *, reduction: Literal["sum", "mean"]) -> LossOutput:
    """The hinges of the anchors, summed or averaged; formula and symbols are with `LiftedStructure`."""
    anchors = anchors_of(pairs, chosen)
    pull = log_sum_exp(pairs.similarity, chosen.positive, scale=-1, largest=1)
    push = log_sum_exp(pairs.similarity, chosen.negative, largest=1)
    hinge = (pull + push).relu() * anchors.is_complete
    count = 1 if reduction == "sum" else anchors.is_complete.sum().clamp(min=1)
    return anchors.output(hinge.sum() / count, is_active=hinge > 0)


@loss("lifted_structure")
class LiftedStructure(PairLoss):
    r"""What the soft least similar positive lacks to the soft most similar negative.

    .. math:: \sum_i \Bigl[\log \sum_{k \in P_i} e^{\lambda - s_{ik}}
                         + \log \sum_{k \in N_i} e^{s_{ik} - \lambda}\Bigr]_+

    =============  ==========================================================================
    s_ik           cosine similarity of embeddings i and k
    P_i, N_i       chosen pairs of anchor i, of one class and of two: the miner's, or all
    lambda         cancels, so it is no setting
    ``reduction``  "sum" over the anchors, or "mean" over those with both kinds of pair
    =============  ==========================================================================

    An anchor with 8 pairs (p, n) or more always pushes: its bracket is at least log(\|P_i\| \|N_i\|) - 2. Its pairs
    then weigh softmax(-s) among the positives and softmax(s) among the negatives. There is no margin: an anchor with
    one negative, farther than its one positive (``miners.SemiHard``), never pushes.

    Shape:      n embeddings -> scalar of their dtype (at least float32)
    Empty:      an anchor without chosen positives or without chosen negatives adds 0; zero connected to the
                graph if none has both
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

    def outcome(self, pairs: Pairs, chosen: Triplets | PairMasks, key: int | None = None) -> LossOutput:
        """The value over the chosen pairs."""
        return lifted_structure(pairs, as_masks(pairs, chosen), reduction=self.reduction)
