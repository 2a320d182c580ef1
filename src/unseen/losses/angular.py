"""Angular: N-pair, and a bound on the angle at the negative of the triangle it forms with anchor and positive."""

import math

import torch
from torch import Tensor

from unseen.core.checks import check_above, check_at_least, check_between, check_choice
from unseen.core.registry import loss
from unseen.losses.calls import OverPairs
from unseen.losses.drawn import with_one_positive
from unseen.losses.n_pair import n_pair
from unseen.losses.pairs import Pairs, inner_products, log1p_sum_exp
from unseen.losses.raw import Regularizer
from unseen.losses.tuples import Miner, Outcome, PairMasks, Triplets


def angular(pairs: Pairs, chosen: PairMasks, *, angle_degrees: float) -> Tensor:
    """The angular part alone, averaged over anchors; formula with `Angular`. `chosen`: at most one positive a row."""
    steepness = math.tan(math.radians(angle_degrees)) ** 2
    column = chosen.positive.to(torch.uint8).argmax(1)
    if pairs.is_self:
        both = pairs.similarity + pairs.similarity.index_select(0, column)
    else:
        both = inner_products(pairs.normalized + pairs.ref_normalized.index_select(0, column), pairs.ref_normalized)
    own = pairs.similarity.gather(1, column.unsqueeze(1))
    exponent = 4 * steepness * both - 2 * (1 + steepness) * own
    is_complete = chosen.positive.any(1) & chosen.negative.any(1)
    return (log1p_sum_exp(exponent, chosen.negative) * is_complete).sum() / is_complete.sum().clamp(min=1)


@loss("angular")
class Angular(OverPairs):
    r"""N-pair on raw embeddings, plus the softly counted negatives that exceed an angle.

    .. math:: L_{NPair} + \frac{\lambda}{|A|} \sum_{a \in A} \log\Bigl[1 + \sum_{n \in N_a}
              e^{4 \tan^2\alpha \, (e_a + e_p) \cdot e_n - 2 (1 + \tan^2\alpha) \, e_a \cdot e_p}\Bigr]

    ===================  ======================================================================================
    e                    normalised embeddings
    p, N_a, A            as in ``NPair``, and the same for both parts
    alpha                ``angle_degrees``, the largest angle wanted at the negative, in degrees (0 to 89)
    lambda               ``angular_weight`` of the angular part (>= 0)
    nu, R                weight (>= 0) and kind (``regularizer``) of the penalty on lengths, as in ``NPair``
    ``exponent_limit``   clamps the exponents of the N-pair part to both sides (> 0); None leaves them. The code
                         of Roth et al. takes 50: negatives beyond it give no gradient
    ===================  ======================================================================================

    Shape:      n embeddings -> scalar of their dtype (at least float32)
    Empty:      an anchor without chosen positives or without chosen negatives adds nothing; zero connected to
                the graph, without R, if none has both. Embeddings with a coordinate beyond 1e12: as in ``NPair``
    Reference:  Wang et al., Deep Metric Learning with Angular Loss, ICCV 2017, arXiv:1708.01682
    Differs:    the N-pair part takes raw embeddings and its penalty, as the code of Roth et al.
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

    def outcome(self, pairs: Pairs, chosen: Triplets | PairMasks, key: int | None = None) -> Outcome:
        """The value over the drawn tuples."""
        masks = with_one_positive(pairs, chosen, key)
        raw = n_pair(pairs, masks, nu=self.nu, regularizer=self.regularizer, exponent_limit=self.exponent_limit)
        part = angular(pairs, masks, angle_degrees=self.angle_degrees)
        return Outcome(raw.value + self.angular_weight * part, raw.used, raw.active)
