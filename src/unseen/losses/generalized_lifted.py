"""Generalized lifted structure loss: soft hardest positive against soft hardest negative."""

from unseen.core.checks import check_at_least, check_choice
from unseen.core.registry import loss
from unseen.losses.base import PairLoss
from unseen.pairs.functional import log_sum_exp, masked_mean
from unseen.pairs.pair_terms import anchors_of
from unseen.pairs.pairs import Pairs
from unseen.pairs.tuples import LossOutput, Miner, PairMasks, Triplets, as_masks
from unseen.pairs.unnormalized import Regularizer, length_penalty, limited, raw_distance


def generalized_lifted(
    pairs: Pairs, chosen: PairMasks, *, margin: float, nu: float, regularizer: Regularizer
) -> LossOutput:
    """Mean hinge over anchors, plus the length penalty; see `GeneralizedLifted` for the formula."""
    anchors = anchors_of(pairs, chosen)
    rows = limited(pairs.embeddings)
    pull, push = log_sum_exp(raw_distance(rows, pairs), chosen, scale=(1, -1), center=(0, margin))
    hinge = (pull + push).relu()
    value = masked_mean(hinge, anchors.is_complete)
    if nu:
        value = value + nu * length_penalty(rows, regularizer) * anchors.is_complete.any()
    return anchors.output(value, is_active=hinge > 0)


@loss("generalized_lifted")
class GeneralizedLifted(PairLoss):
    r"""Generalized lifted structure loss: hinge on log-sum-exp of distances.

    .. math:: \frac1{|A|} \sum_{a \in A} \Bigl[\log \sum_{p \in P_a} e^{d_{ap}}
              + \log \sum_{n \in N_a} e^{\gamma - d_{an}}\Bigr]_+ + \nu R

    ===============  ==========================================================================================
    d                Euclidean distance of the unnormalised embeddings
    P_a, N_a         chosen positives and negatives of anchor a: those of the miner, or all
    A                anchors with both kinds of pair
    gamma            ``margin`` (>= 0), between negatives and positives
    nu               weight of the length penalty (>= 0)
    R                ``regularizer``: mean squared length of all embeddings of the batch ("squared_norm", the
                     paper of Roth et al.) or their mean length ("norm", its code)
    ===============  ==========================================================================================

    Shape:      n embeddings -> scalar of their dtype (at least float32)
    Empty:      anchors without a chosen positive or negative are skipped; zero connected to the graph, without R,
                if none is left. An embedding with a coordinate beyond 1e12 is scaled down to it, so that
                its square is finite
    Reference:  Hermans et al., In Defense of the Triplet Loss for Person Re-Identification, 2017, arXiv:1703.07737
    Differs:    a mean over anchors, not a sum; an anchor is not its own positive; R is added as Roth et al.
                (arXiv:2002.08473) train it: ``nu=0`` is Hermans' loss. Distances are sqrt(d^2 + 1e-8)
    """

    def __init__(
        self,
        *,
        margin: float = 1.0,
        nu: float = 0.005,
        regularizer: Regularizer = "squared_norm",
        miner: Miner | None = None,
    ) -> None:
        super().__init__()
        check_at_least("GeneralizedLifted", "margin", margin, 0)
        check_at_least("GeneralizedLifted", "nu", nu, 0)
        check_choice("GeneralizedLifted", "regularizer", regularizer, ("squared_norm", "norm"))
        self.margin, self.nu, self.miner = margin, nu, miner
        self.regularizer: Regularizer = regularizer

    def compute(self, pairs: Pairs, chosen: Triplets | PairMasks, key: int | None = None) -> LossOutput:
        """Loss over the chosen pairs."""
        return generalized_lifted(
            pairs, as_masks(pairs, chosen), margin=self.margin, nu=self.nu, regularizer=self.regularizer
        )
