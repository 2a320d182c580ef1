"""N-pair: an anchor's positive against all its negatives at once, by raw inner products."""

import torch

from unseen.core.checks import check_at_least, check_choice
from unseen.core.registry import loss
from unseen.losses.base import PairLoss
from unseen.pairs.functional import masked_mean
from unseen.pairs.pair_terms import anchors_of
from unseen.pairs.pairs import Pairs
from unseen.pairs.positive_sampling import n_pair_terms, with_one_positive
from unseen.pairs.tuples import LossOutput, Miner, PairMasks, Triplets
from unseen.pairs.unnormalized import Regularizer, length_penalty, limited, raw_products


def n_pair(
    pairs: Pairs,
    chosen: PairMasks,
    *,
    nu: float,
    regularizer: Regularizer,
    embedding_divisor: float = 1.0,
    exponent_limit: float | None = None,
) -> LossOutput:
    """The softly counted negatives of each anchor, averaged, and the penalty; formula with `NPair`.

    `chosen` has at most one positive a row. `exponent_limit` clamps the differences of products to both sides.
    """
    anchors = anchors_of(pairs, chosen)
    rows = limited(pairs.embeddings if embedding_divisor == 1 else pairs.embeddings / embedding_divisor)
    products = raw_products(rows, pairs, embedding_divisor)
    column = chosen.positive.to(torch.uint8).argmax(1, keepdim=True)
    terms = n_pair_terms(products, column, chosen.negative, exponent_limit=exponent_limit)
    value = masked_mean(terms, anchors.is_complete)
    if nu:
        value = value + nu * length_penalty(rows, regularizer) * anchors.is_complete.any()
    num_anchors = anchors.is_complete.sum()
    return LossOutput(value, num_anchors, num_anchors)


@loss("n_pair")
class NPair(PairLoss):
    r"""Mean over anchors of their negatives, softly counted against one positive.

    .. math:: \frac1{|A|} \sum_{a \in A} \log\Bigl[1 + \sum_{n \in N_a} e^{f_a \cdot f_n - f_a \cdot f_p}\Bigr] + \nu R

    =====================  ====================================================================================
    f                      the embeddings as they are, not normalised
    p                      one positive of a, drawn with the key from the chosen ones: the miner's, or all
    N_a                    the chosen negatives of a: the miner's, or all
    A                      the anchors with a positive and a negative
    nu                     weight of the penalty on lengths (>= 0)
    R                      ``regularizer``: mean squared length of all embeddings of the batch ("squared_norm",
                           the papers) or their mean length ("norm", the code of Roth et al.)
    ``embedding_divisor``  the embeddings are divided by it first, in R too (>= 1); the code of Roth et al. takes
                           4 for BN-Inception
    =====================  ====================================================================================

    Shape:      n embeddings -> scalar of their dtype (at least float32)
    Empty:      an anchor without chosen positives or without chosen negatives adds nothing; zero connected to
                the graph, without R, if none has both. An embedding with a coordinate beyond 1e12 counts as if
                divided by the constant that brings it there, so that its square stays finite
    Reference:  Sohn, Improved Deep Metric Learning with Multi-class N-pair Loss Objective, NeurIPS 2016
    Differs:    every sample with a positive and a negative is an anchor, as Roth et al. (arXiv:2002.08473) train
                it; Sohn takes one pair a class. Of several tuples given for an anchor, one positive is used
    """

    def __init__(
        self,
        *,
        nu: float = 0.005,
        regularizer: Regularizer = "squared_norm",
        embedding_divisor: float = 1.0,
        miner: Miner | None = None,
    ) -> None:
        super().__init__()
        check_at_least("NPair", "nu", nu, 0)
        check_choice("NPair", "regularizer", regularizer, ("squared_norm", "norm"))
        check_at_least("NPair", "embedding_divisor", embedding_divisor, 1)
        self.nu, self.embedding_divisor, self.miner = nu, embedding_divisor, miner
        self.regularizer: Regularizer = regularizer

    def outcome(self, pairs: Pairs, chosen: Triplets | PairMasks, key: int | None = None) -> LossOutput:
        """The value over the drawn tuples."""
        return n_pair(
            pairs,
            with_one_positive(pairs, chosen, key),
            nu=self.nu,
            regularizer=self.regularizer,
            embedding_divisor=self.embedding_divisor,
        )
