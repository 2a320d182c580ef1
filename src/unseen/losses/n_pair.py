"""N-pair loss: one positive against all negatives of an anchor, by inner products."""

from unseen.core.checks import check_at_least, check_choice
from unseen.core.registry import loss
from unseen.losses.base import PairLoss
from unseen.pairs.functional import masked_mean
from unseen.pairs.functional.small import is_small
from unseen.pairs.pairs import Pairs
from unseen.pairs.positive_sampling import DrawnPairs, draw_positives, n_pair_terms, small_n_pair
from unseen.pairs.tuples import LossOutput, Miner, PairMasks, Triplets
from unseen.pairs.unnormalized import Regularizer, length_penalty, limited, raw_products


def n_pair(
    pairs: Pairs,
    drawn: DrawnPairs,
    *,
    nu: float,
    regularizer: Regularizer,
    embedding_divisor: float = 1.0,
    exponent_limit: float | None = None,
) -> LossOutput:
    """Mean N-pair term over anchors, plus the length penalty; see `NPair` for the formula.

    `exponent_limit` clamps the differences of products on both sides.
    """
    rows = limited(pairs.embeddings if embedding_divisor == 1 else pairs.embeddings / embedding_divisor)
    products = raw_products(rows, pairs, embedding_divisor)
    if pairs.is_self and exponent_limit is None and is_small(products):
        value = small_n_pair(products, drawn, angle=None, penalty=(nu, regularizer))
        return LossOutput(value, drawn.is_anchor, drawn.is_anchor)
    terms = n_pair_terms(products, drawn, exponent_limit=exponent_limit)
    value = masked_mean(terms, drawn.is_anchor)
    if nu:
        value = value + nu * length_penalty(rows, regularizer) * drawn.is_anchor.any()
    return LossOutput(value, drawn.is_anchor, drawn.is_anchor)


@loss("n_pair")
class NPair(PairLoss):
    r"""N-pair loss: log(1 + sum of exp(f_a f_n - f_a f_p)) over the negatives of each anchor.

    .. math:: \frac1{|A|} \sum_{a \in A} \log\Bigl[1 + \sum_{n \in N_a} e^{f_a \cdot f_n - f_a \cdot f_p}\Bigr] + \nu R

    =====================  ====================================================================================
    f                      unnormalised embeddings
    p                      one positive of a, drawn uniformly from the chosen ones
    N_a                    chosen negatives of a: those of the miner, or all
    A                      anchors with a positive and a negative
    nu                     weight of the length penalty (>= 0)
    R                      ``regularizer``: mean squared length of all embeddings of the batch ("squared_norm",
                           the papers) or their mean length ("norm", the code of Roth et al.)
    ``embedding_divisor``  embeddings are divided by it first, also in R (>= 1); the code of Roth et al. takes
                           4 for BN-Inception
    =====================  ====================================================================================

    Shape:      n embeddings -> scalar of their dtype (at least float32)
    Empty:      anchors without a chosen positive or negative are skipped; zero connected to the graph, without R,
                if none is left. An embedding with a coordinate beyond 1e12 is scaled down to it, so that
                its square is finite
    Reference:  Sohn, Improved Deep Metric Learning with Multi-class N-pair Loss Objective, NeurIPS 2016
    Differs:    every sample with a positive and a negative is an anchor, as Roth et al. (arXiv:2002.08473) train
                it; Sohn takes one pair per class. Of several tuples of an anchor, one positive is used
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

    def compute(self, pairs: Pairs, chosen: Triplets | PairMasks, key: int | None = None) -> LossOutput:
        """Loss over the chosen pairs, with one random positive per anchor."""
        return n_pair(
            pairs,
            draw_positives(pairs, chosen, key),
            nu=self.nu,
            regularizer=self.regularizer,
            embedding_divisor=self.embedding_divisor,
        )
