"""Angular loss: N-pair loss plus a bound on the angle at the negative of each triangle."""

import math

from unseen.core.checks import check_above, check_at_least, check_between, check_choice
from unseen.core.registry import loss
from unseen.losses.base import PairLoss
from unseen.pairs.functional import cosines_from_products, inner_products, log1p_sum_exp, masked_mean
from unseen.pairs.functional.small import is_small
from unseen.pairs.pairs import Pairs
from unseen.pairs.positive_sampling import DrawnPairs, draw_positives, n_pair_terms, small_n_pair
from unseen.pairs.tuples import LossOutput, Miner, PairMasks, Triplets
from unseen.pairs.unnormalized import Regularizer, length_penalty, limited, raw_products


def angular(
    pairs: Pairs,
    drawn: DrawnPairs,
    *,
    angle_degrees: float,
    angular_weight: float,
    nu: float,
    regularizer: Regularizer,
    exponent_limit: float | None,
) -> LossOutput:
    """N-pair part, angular part and length penalty; see `Angular` for the formula."""
    rows = limited(pairs.embeddings)
    products = raw_products(rows, pairs)
    steepness = math.tan(math.radians(angle_degrees)) ** 2
    if pairs.is_self and exponent_limit is None and is_small(products):
        value = small_n_pair(products, drawn, angle=(steepness, angular_weight), penalty=(nu, regularizer))
        return LossOutput(value, drawn.is_anchor, drawn.is_anchor)
    n_pair_part = n_pair_terms(products, drawn, exponent_limit=exponent_limit)
    if pairs.is_self:  # one product serves both parts: the cosines are the products with the lengths divided out
        cosines = cosines_from_products(products)
        both = cosines + cosines.index_select(0, drawn.column.squeeze(1))  # (e_a + e_p) e_n
    else:
        cosines = pairs.similarity
        partners = pairs.ref_normalized.index_select(0, drawn.column.squeeze(1))
        both = inner_products(pairs.normalized + partners, pairs.ref_normalized)
    own = 2 * (1 + steepness) * cosines.gather(1, drawn.column)
    angular_part = log1p_sum_exp(4 * steepness * both, drawn.negative, center=own)
    value = masked_mean(n_pair_part + angular_weight * angular_part, drawn.is_anchor)
    if nu:
        value = value + nu * length_penalty(rows, regularizer) * drawn.is_anchor.any()
    return LossOutput(value, drawn.is_anchor, drawn.is_anchor)


@loss("angular")
class Angular(PairLoss):
    r"""Angular loss: N-pair loss plus a bound on the angle at the negatives.

    .. math:: L_{NPair} + \frac{\lambda}{|A|} \sum_{a \in A} \log\Bigl[1 + \sum_{n \in N_a}
              e^{4 \tan^2\alpha \, (e_a + e_p) \cdot e_n - 2 (1 + \tan^2\alpha) \, e_a \cdot e_p}\Bigr]

    ===================  ======================================================================================
    e                    normalised embeddings
    p, N_a, A            as in ``NPair``, and the same for both parts
    alpha                ``angle_degrees``, largest angle at the negative, in degrees (0 to 89)
    lambda               ``angular_weight``, weight of the angular part (>= 0)
    nu                   weight of the length penalty (>= 0)
    R                    ``regularizer``, kind of length penalty, as in ``NPair``
    ``exponent_limit``   clamps the exponents of the N-pair part on both sides (> 0); None does not. The code
                         of Roth et al. takes 50: negatives beyond it have no gradient
    ===================  ======================================================================================

    Shape:      n embeddings -> scalar of their dtype (at least float32)
    Empty:      anchors without a chosen positive or negative are skipped; zero connected to the graph, without R,
                if none is left. Embeddings with a coordinate beyond 1e12: as in ``NPair``
    Reference:  Wang et al., Deep Metric Learning with Angular Loss, ICCV 2017, arXiv:1708.01682
    Differs:    the N-pair part takes unnormalised embeddings and its penalty, as the code of Roth et al.
                (arXiv:2002.08473) has it; their printed eq. 5 misplaces tan^2, a bracket and an index
    """

    def __init__(
        self,
        *,
        angle_degrees: float = 45.0,
        angular_weight: float = 2.0,
        nu: float = 0.005,
        regularizer: Regularizer = "squared_norm",
        exponent_limit: float | None = None,
        miner: Miner | None = None,
    ) -> None:
        super().__init__()
        check_between("Angular", "angle_degrees", angle_degrees, 0, 89)
        check_at_least("Angular", "angular_weight", angular_weight, 0)
        check_at_least("Angular", "nu", nu, 0)
        check_choice("Angular", "regularizer", regularizer, ("squared_norm", "norm"))
        if exponent_limit is not None:
            check_above("Angular", "exponent_limit", exponent_limit, 0)
        self.angle_degrees, self.angular_weight, self.nu = angle_degrees, angular_weight, nu
        self.regularizer: Regularizer = regularizer
        self.exponent_limit, self.miner = exponent_limit, miner

    def compute(self, pairs: Pairs, chosen: Triplets | PairMasks, key: int | None = None) -> LossOutput:
        """Loss over the chosen pairs, with one random positive per anchor."""
        return angular(
            pairs,
            draw_positives(pairs, chosen, key),
            angle_degrees=self.angle_degrees,
            angular_weight=self.angular_weight,
            nu=self.nu,
            regularizer=self.regularizer,
            exponent_limit=self.exponent_limit,
        )
