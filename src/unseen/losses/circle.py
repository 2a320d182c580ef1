"""Circle loss: pairs weighted by how far their similarity is from its optimum."""

import torch
from torch.nn.functional import softplus

from unseen.core.checks import check_above, check_between
from unseen.core.registry import loss
from unseen.losses.base import PairLoss
from unseen.pairs.functional import log_sum_exp, masked_mean
from unseen.pairs.pair_terms import anchors_of
from unseen.pairs.pairs import Pairs
from unseen.pairs.tuples import LossOutput, Miner, PairMasks, Triplets, as_masks


def circle(pairs: Pairs, chosen: PairMasks, *, margin: float, scale: float) -> LossOutput:
    """Mean over anchors of the soft maximum of their weighted violations; see `Circle` for the formula."""
    similarity, anchors = pairs.similarity, anchors_of(pairs, chosen)
    constant = similarity.detach()
    weights = torch.stack((1 + margin - constant, constant + margin)).relu_()  # alpha of positives and of negatives
    pull, push = log_sum_exp(similarity, chosen, scale=(-scale, scale), center=(1 - margin, margin), weights=weights)
    # Beyond the threshold softplus is taken as linear; exp(-40) is below the precision of float64.
    return anchors.output(masked_mean(softplus(pull + push, threshold=40), anchors.is_complete))


@loss("circle")
class Circle(PairLoss):
    r"""Circle loss: log-sum-exp of self-paced similarities of positive and negative pairs.

    .. math:: \frac1n \sum_i \log\bigl[1 + \sum_{k \in N_i} e^{\gamma \alpha_{ik} (s_{ik} - m)}
              \sum_{k \in P_i} e^{-\gamma \alpha_{ik} (s_{ik} - 1 + m)}\bigr], \quad
              \alpha_{ik} = \begin{cases} [1 + m - s_{ik}]_+ & k \in P_i \\ [s_{ik} + m]_+ & k \in N_i \end{cases}

    =============  ==========================================================================
    s_ik           cosine similarity of embeddings i and k
    P_i, N_i       chosen positives and negatives of anchor i: those of the miner, or all
    alpha          weight of each pair, a constant for the gradient
    m              ``margin`` (0 to 1): similarities should be above 1 - m for positives, below m for negatives
    gamma          ``scale`` (> 0), which multiplies the exponents
    n              anchors with a chosen positive and a chosen negative
    =============  ==========================================================================

    Shape:      n embeddings -> scalar of their dtype (at least float32)
    Empty:      anchors without a chosen positive or negative are skipped; zero connected to the graph if none is left
    Reference:  Sun et al., Circle Loss: A Unified Perspective of Pair Similarity Optimization, CVPR 2020,
                arXiv:2002.10857
    Differs:    nothing; as alpha is a constant for the gradient, the gradient is not that of the value
    """

    def __init__(self, *, margin: float = 0.4, scale: float = 80.0, miner: Miner | None = None) -> None:
        super().__init__()
        check_between("Circle", "margin", margin, 0, 1)
        check_above("Circle", "scale", scale, 0)
        self.margin, self.scale, self.miner = margin, scale, miner

    def compute(self, pairs: Pairs, chosen: Triplets | PairMasks, key: int | None = None) -> LossOutput:
        """Loss over the chosen pairs."""
        return circle(pairs, as_masks(pairs, chosen), margin=self.margin, scale=self.scale)
