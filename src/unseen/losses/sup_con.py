"""SupCon: supervised contrastive loss; with one positive per anchor it is InfoNCE."""

from unseen.core.checks import check_above
from unseen.core.registry import loss
from unseen.losses.base import PairLoss
from unseen.pairs.functional import log_sum_exp, masked_mean, masked_row_sums
from unseen.pairs.pair_terms import counts_of
from unseen.pairs.pairs import Pairs
from unseen.pairs.tuples import LossOutput, Miner, PairMasks, Triplets, as_masks


def sup_con(pairs: Pairs, chosen: PairMasks, *, temperature: float) -> LossOutput:
    """Mean cross-entropy of the positives against all chosen pairs; see `SupCon` for the formula."""
    positives, negatives = counts_of(pairs, chosen)
    has_positive = positives > 0
    log_total = log_sum_exp(pairs.similarity, chosen.positive | chosen.negative, scale=1 / temperature, largest=1)
    # The mean of -log softmax over the positives is the log of the denominator minus their mean logit.
    mean_positive = masked_row_sums(pairs.similarity, chosen.positive) / positives.clamp(min=1)
    value = masked_mean(log_total - mean_positive / temperature, has_positive)
    num_pairs = (positives + negatives) * has_positive
    return LossOutput(value, num_pairs, num_pairs)


@loss("sup_con")
class SupCon(PairLoss):
    r"""Supervised contrastive loss: softmax cross-entropy of positives against all others.

    .. math:: \frac1n \sum_i \frac{-1}{|P_i|} \sum_{p \in P_i}
              \log \frac{e^{s_{ip} / \tau}}{\sum_{k \in P_i \cup N_i} e^{s_{ik} / \tau}}

    =============  ==========================================================================
    s_ik           cosine similarity of embeddings i and k
    P_i, N_i       chosen positives and negatives of anchor i: those of the miner, or all
    tau            ``temperature`` (> 0) by which the similarities are divided
    n              anchors with a positive
    =============  ==========================================================================

    The sum over positives stands outside the logarithm (L_out of the paper). InfoNCE is the case of one positive for
    each anchor, such as two views of one image under a label of their own: -log softmax of that positive over all
    other samples (NT-Xent). Where all similarities are equal the value is log(number of others).

    Shape:      n embeddings -> scalar of their dtype (at least float32)
    Empty:      anchors without a chosen positive are skipped; one without negatives has its positives in the
                denominator only; zero connected to the graph if none is left
    Reference:  Khosla et al., Supervised Contrastive Learning, NeurIPS 2020, arXiv:2004.11362
    Differs:    the mean over anchors with a positive; the paper sums over all
    """

    def __init__(self, *, temperature: float = 0.1, miner: Miner | None = None) -> None:
        super().__init__()
        check_above("SupCon", "temperature", temperature, 0)
        self.temperature, self.miner = temperature, miner

    def compute(self, pairs: Pairs, chosen: Triplets | PairMasks, key: int | None = None) -> LossOutput:
        """Loss over the chosen pairs."""
        return sup_con(pairs, as_masks(pairs, chosen), temperature=self.temperature)
