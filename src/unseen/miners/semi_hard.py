"""Semi-hard mining: negatives slightly farther than the positive, or than a threshold for pairs."""

from typing import Literal

import torch
from torch import Tensor

from unseen.core.checks import check_above, check_between, check_choice, check_count
from unseen.core.registry import miner
from unseen.pairs.pairs import Pairs, pairs_of
from unseen.pairs.random_choice import draw, draw_distinct, gumbel_numbers, triplets_of, uniform_numbers
from unseen.pairs.tuples import PairIndices, PairMasks, Triplets


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


@miner("semi_hard_pairs")
class SemiHardPairs:
    r"""All positive pairs, and negative pairs whose similarity is in a band below a threshold.

    .. math:: k \in P_i, \qquad k \in N_i : \lambda - m < s_{ik} < \lambda

    =============  ==============================================================================
    s_ik           cosine similarity of embeddings i and k
    P_i, N_i       others with the label of i; others with another label
    lambda         ``threshold`` (-1 to 1), instead of the positive's similarity
    m              ``margin`` (> 0), the width of the band
    ``negatives``  "all" negatives of the band, or per anchor "as_many" as it has positives,
                   drawn uniformly without replacement (all of them if there are fewer)
    =============  ==============================================================================

    Shape:      n embeddings -> indices of positive and of negative pairs
    Empty:      an anchor without negatives in the band keeps its positives; one without positives, or without any
                negative, gets no pair. With "all" the key is not used
    Reference:  Qi et al., A Simple and Effective Framework for Pairwise Deep Metric Learning, ECCV 2020,
                arXiv:1912.11194; after Schroff et al., FaceNet: A Unified Embedding for Face Recognition and
                Clustering, CVPR 2015, arXiv:1503.03832
    Differs:    nothing; ``negatives="as_many"`` balances the two kinds of pair
    """

    def __init__(
        self, *, threshold: float = 0.5, margin: float = 0.2, negatives: Literal["all", "as_many"] = "all"
    ) -> None:
        check_between("SemiHardPairs", "threshold", threshold, -1, 1)
        check_above("SemiHardPairs", "margin", margin, 0)
        check_choice("SemiHardPairs", "negatives", negatives, ("all", "as_many"))
        self.threshold, self.margin, self.negatives = threshold, margin, negatives

    @torch.no_grad()
    def __call__(
        self, embeddings: Tensor | Pairs, labels: Tensor | None = None, *, key: int | None = None
    ) -> PairIndices:
        """The pairs of a batch, a function of embeddings, labels and key."""
        return self.masks(pairs_of(embeddings, labels), key).indices()

    @torch.no_grad()
    def masks(self, pairs: Pairs, key: int | None = None) -> PairMasks:
        """The pairs as masks, for losses that need no indices."""
        similarity = pairs.detached.similarity
        in_band = (similarity > self.threshold - self.margin) & (similarity < self.threshold)
        negative = pairs.negative & in_band & (pairs.positive_count > 0).unsqueeze(1)
        if self.negatives == "as_many":
            weights = torch.zeros_like(similarity).masked_fill_(~negative, -torch.inf)
            negative = draw_distinct(weights, pairs.positive_count, gumbel_numbers(pairs, key))
        return PairMasks(pairs.positive & (pairs.negative_count > 0).unsqueeze(1), negative)
