"""Semi-hard mining: negatives slightly farther from the anchor than the positive."""

import torch
from torch import Tensor

from unseen.core.checks import check_above, check_count
from unseen.core.registry import miner
from unseen.pairs.pairs import Pairs, pairs_of
from unseen.pairs.random_choice import draw, triplets_of, uniform_numbers
from unseen.pairs.tuples import Triplets


@miner("semi_hard")
class SemiHard:
    r"""Semi-hard triplets: a uniform positive, and a negative farther than it by less than a margin.

    .. math:: p \sim U(P_a), \quad n \sim U\{n \in N_a : d_{ap} < d_{an} < d_{ap} + \gamma\}

    ==============  ======================================================================
    d               Euclidean distance of the normalised embeddings
    P_a, N_a        others with the label of a; others with another label
    gamma           ``margin`` (> 0), usually that of the loss
    per_anchor      triplets per anchor (>= 1), drawn independently
    ==============  ======================================================================

    Shape:      n embeddings -> triplets of per_anchor x (anchors with a positive and a negative)
    Empty:      where no negative is semi-hard, a uniform one of all; anchors without positives or negatives are
                left out
    Reference:  Schroff et al., FaceNet: A Unified Embedding for Face Recognition and Clustering, CVPR 2015,
                arXiv:1503.03832
    Differs:    distances are not squared and have an upper bound, as in the code of Roth et al. (arXiv:2002.08473)
    """

    def __init__(self, *, margin: float = 0.2, per_anchor: int = 1) -> None:
        check_above("SemiHard", "margin", margin, 0)
        check_count("SemiHard", "per_anchor", per_anchor)
        self.margin, self.per_anchor = margin, per_anchor

    @torch.no_grad()
    def __call__(self, embeddings: Tensor | Pairs, labels: Tensor | None = None, *, key: int | None = None) -> Triplets:
        """The triplets of a batch, a function of embeddings, labels and key."""
        pairs = pairs_of(embeddings, labels).detached
        numbers = uniform_numbers(pairs, key, draws=2, per_anchor=self.per_anchor)
        positive = draw(pairs.positive, numbers[0])
        negative = [
            draw(self._weights(pairs, positive[:, k : k + 1]), numbers[1, :, k : k + 1]) for k in range(self.per_anchor)
        ]
        return triplets_of(pairs, positive, torch.cat(negative, 1))

    def _weights(self, pairs: Pairs, positive: Tensor) -> Tensor:
        near = pairs.distance.gather(1, positive.clamp(max=pairs.distance.shape[1] - 1))
        is_semi_hard = pairs.negative & (pairs.distance > near) & (pairs.distance < near + self.margin)
        return torch.where(is_semi_hard.any(1, keepdim=True), is_semi_hard, pairs.negative)
