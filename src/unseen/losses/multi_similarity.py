"""Multi-similarity loss: pairs weighted by their similarity relative to the other pairs of the anchor."""

from typing import Literal

from unseen.core.checks import check_above, check_between, check_choice
from unseen.core.registry import loss
from unseen.losses.base import PairLoss
from unseen.pairs.functional import log1p_sum_exp, masked_mean, masked_sum
from unseen.pairs.pair_terms import anchors_of
from unseen.pairs.pairs import Pairs
from unseen.pairs.tuples import LossOutput, Miner, PairMasks, Triplets, as_masks


def multi_similarity(
    pairs: Pairs, chosen: PairMasks, *, alpha: float, beta: float, threshold: float, reduction: Literal["batch", "kept"]
) -> LossOutput:
    """Mean over anchors of both log-sums; see `MultiSimilarity` for the formula."""
    anchors = anchors_of(pairs, chosen)
    pull, push = log1p_sum_exp(pairs.similarity, chosen, scale=(-alpha, beta), center=threshold, largest=1)
    terms = pull / alpha + push / beta
    if reduction == "kept":
        return anchors.output(masked_mean(terms, anchors.is_complete))
    return anchors.output(masked_sum(terms, anchors.is_complete) / len(pairs))


@loss("multi_similarity")
class MultiSimilarity(PairLoss):
    r"""Multi-similarity loss: log(1 + sum of exponentials) over positive and negative pairs.

    .. math:: \frac1n \sum_i \tfrac1\alpha \log\bigl[1 + \sum_{k \in P_i} e^{-\alpha (s_{ik} - \lambda)}\bigr]
                            + \tfrac1\beta  \log\bigl[1 + \sum_{k \in N_i} e^{ \beta (s_{ik} - \lambda)}\bigr]

    =============  ==========================================================================
    s_ik           cosine similarity of embeddings i and k
    P_i, N_i       chosen positives and negatives of anchor i: those of the miner, or all
    alpha          sharpness for positives (> 0)
    beta           sharpness for negatives (> 0)
    lambda         ``threshold``, neutral similarity
    ``reduction``  n counts all anchors ("batch") or those with both kinds of pair ("kept")
    =============  ==========================================================================

    Shape:      n embeddings -> scalar of their dtype (at least float32)
    Empty:      anchors without a chosen positive or negative add 0; zero connected to the graph if none is left
    Reference:  Wang et al., Multi-Similarity Loss with General Pair Weighting for Deep Metric Learning, CVPR 2019,
                arXiv:1904.06627
    Differs:    the paper's pair mining is a miner here: ``miners.MultiSimilarity``; without it all pairs count. The
                defaults are those of Roth et al. (arXiv:2002.08473)
    """

    def __init__(
        self,
        *,
        alpha: float = 2.0,
        beta: float = 40.0,
        threshold: float = 0.5,
        reduction: Literal["batch", "kept"] = "batch",
        miner: Miner | None = None,
    ) -> None:
        super().__init__()
        check_above("MultiSimilarity", "alpha", alpha, 0)
        check_above("MultiSimilarity", "beta", beta, 0)
        check_between("MultiSimilarity", "threshold", threshold, -1, 1)
        check_choice("MultiSimilarity", "reduction", reduction, ("batch", "kept"))
        self.alpha, self.beta, self.threshold, self.miner = alpha, beta, threshold, miner
        self.reduction: Literal["batch", "kept"] = reduction

    def compute(self, pairs: Pairs, chosen: Triplets | PairMasks, key: int | None = None) -> LossOutput:
        """Loss over the chosen pairs."""
        return multi_similarity(
            pairs,
            as_masks(pairs, chosen),
            alpha=self.alpha,
            beta=self.beta,
            threshold=self.threshold,
            reduction=self.reduction,
        )
