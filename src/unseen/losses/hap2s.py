"""HAP2S: hard-aware point-to-set triplet loss."""

from unseen.core.checks import check_above, check_at_least, check_choice
from unseen.core.registry import loss
from unseen.losses.base import PairLoss
from unseen.pairs.functional import masked_mean, soft_extremes
from unseen.pairs.pair_terms import anchors_of
from unseen.pairs.pairs import Pairs
from unseen.pairs.tuples import LossOutput, Miner, PairMasks, Triplets, as_masks


def hap2s(pairs: Pairs, chosen: PairMasks, *, margin: float, sigma: float, detach_weights: bool) -> LossOutput:
    """Mean hinge between the two point-to-set distances; see `HAP2S` for the formula."""
    anchors = anchors_of(pairs, chosen)
    # The soft farthest positive and the soft nearest negative.
    far, near = soft_extremes(pairs.distance, chosen, temperature=sigma, detach_weights=detach_weights)
    hinge = (far - near + margin).relu()
    return anchors.output(masked_mean(hinge, anchors.is_complete), is_active=hinge > 0)


@loss("hap2s")
class HAP2S(PairLoss):
    r"""HAP2S loss: hinge between the soft farthest positive and the soft nearest negative.

    .. math:: \frac1{|A|} \sum_{i \in A} [D^+_i - D^-_i + m]_+, \qquad
              D^\pm_i = \sum_j w^\pm_{ij} d_{ij}, \quad
              w^+_{ij} = \frac{e^{d_{ij}/\sigma}}{\sum_{k \in P_i} e^{d_{ik}/\sigma}}, \quad
              w^-_{ij} = \frac{e^{-d_{ij}/\sigma}}{\sum_{k \in N_i} e^{-d_{ik}/\sigma}}

    ==================  ======================================================================================
    d_ij                Euclidean distance of the normalised embeddings i and j
    P_i, N_i            chosen positives and negatives of anchor i: those of the miner, or all
    A                   anchors with both kinds of pair
    m                   ``margin`` (>= 0), between negatives and positives
    sigma               (> 0): towards 0 only the hardest pair counts, with large sigma all count the same
    ``detach_weights``  w are constants for the gradient, as in the anchor-grouped KL robust loss with
                        gamma = sigma, whose worst-case weights they are; the value is the same
    ==================  ======================================================================================

    Shape:      n embeddings -> scalar of their dtype (at least float32)
    Empty:      anchors without a chosen positive or negative are skipped; zero connected to the graph if none is left
    Reference:  Yu et al., Hard-Aware Point-to-Set Deep Metric for Person Re-identification, ECCV 2018,
                arXiv:1807.11206
    Differs:    the exponential weights only (HAP2S_E); the paper states neither sigma nor m
    """

    def __init__(
        self, *, margin: float = 0.2, sigma: float = 0.5, detach_weights: bool = False, miner: Miner | None = None
    ) -> None:
        super().__init__()
        check_at_least("HAP2S", "margin", margin, 0)
        check_above("HAP2S", "sigma", sigma, 0)
        check_choice("HAP2S", "detach_weights", detach_weights, (True, False))
        self.margin, self.sigma, self.detach_weights, self.miner = margin, sigma, detach_weights, miner

    def compute(self, pairs: Pairs, chosen: Triplets | PairMasks, key: int | None = None) -> LossOutput:
        """Loss over the chosen pairs."""
        return hap2s(
            pairs, as_masks(pairs, chosen), margin=self.margin, sigma=self.sigma, detach_weights=self.detach_weights
        )
