"""Multi-similarity mining: pairs that are hard in comparison with the hardest pair of the other kind."""

import torch
from torch import Tensor

from unseen.core.checks import check_at_least
from unseen.core.registry import miner
from unseen.pairs.pairs import Pairs, pairs_of
from unseen.pairs.tuples import PairIndices, PairMasks


@miner("multi_similarity")
class MultiSimilarity:
    r"""Positives less similar than the nearest negative, negatives more similar than the farthest positive.

    .. math:: k \in P_i : s_{ik} < \max_{N_i} s + \epsilon, \qquad k \in N_i : s_{ik} > \min_{P_i} s - \epsilon

    ==============  ==============================================================
    s_ik            cosine similarity of embeddings i and k
    P_i, N_i        others with the label of i; others with another label
    epsilon         slack of the comparison (>= 0)
    ==============  ==============================================================

    Shape:      n embeddings -> indices of positive and of negative pairs
    Empty:      anchors without positives or negatives give no pair; nothing is drawn, so the key plays no part
    Reference:  Wang et al., Multi-Similarity Loss with General Pair Weighting for Deep Metric Learning, CVPR 2019,
                arXiv:1904.06627
    Differs:    nothing
    """

    def __init__(self, *, epsilon: float = 0.1) -> None:
        check_at_least("MultiSimilarity", "epsilon", epsilon, 0)
        self.epsilon = epsilon

    @torch.no_grad()
    def __call__(
        self, embeddings: Tensor | Pairs, labels: Tensor | None = None, *, key: int | None = None
    ) -> PairIndices:
        """The kept pairs of a batch, a function of embeddings and labels."""
        kept = self.masks(pairs_of(embeddings, labels).detached, key)
        return PairIndices(*kept.positive.nonzero().unbind(1), *kept.negative.nonzero().unbind(1))

    @torch.no_grad()
    def masks(self, pairs: Pairs, key: int | None = None) -> PairMasks:
        """The kept pairs as masks, for losses that need no indices."""
        similarity = pairs.detached.similarity
        # Without positives (negatives) the bound is +inf (-inf) and keeps no pair of the other kind.
        farthest = similarity.masked_fill(~pairs.positive, torch.inf).amin(1, keepdim=True)
        nearest = similarity.masked_fill(pairs.same, -torch.inf).amax(1, keepdim=True)
        return PairMasks(
            pairs.positive & (similarity < nearest + self.epsilon),
            pairs.negative & (similarity > farthest - self.epsilon),
        )
