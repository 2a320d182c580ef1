"""Multi-similarity mining: pairs that are hard compared with the hardest pair of the opposite kind."""

import torch
from torch import Tensor

from unseen.core.checks import check_at_least
from unseen.core.registry import miner
from unseen.pairs.pairs import Pairs, pairs_of
from unseen.pairs.tuples import PairIndices, PairMasks


@miner("multi_similarity")
class MultiSimilarity:
    r"""Pairs harder than the hardest pair of the opposite kind, minus a slack.

    .. math:: k \in P_i : s_{ik} < \max_{N_i} s + \epsilon, \qquad k \in N_i : s_{ik} > \min_{P_i} s - \epsilon

    ==============  ==============================================================
    s_ik            cosine similarity of embeddings i and k
    P_i, N_i        others with the label of i; others with another label
    epsilon         slack of both comparisons (>= 0)
    ==============  ==============================================================

    Shape:      n embeddings -> indices of positive and of negative pairs
    Empty:      anchors without positives or negatives get no pair; the key is not used
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
        """The pairs of a batch, a function of embeddings and labels."""
        return self.masks(pairs_of(embeddings, labels), key).indices()

    @torch.no_grad()
    def masks(self, pairs: Pairs, key: int | None = None) -> PairMasks:
        """The pairs as masks, for losses that need no indices."""
        similarity = pairs.detached.similarity
        # Without positives (negatives) the bound is +inf (-inf), so that no pair of the opposite kind is chosen.
        farthest = similarity.masked_fill(~pairs.positive, torch.inf).amin(1, keepdim=True)
        nearest = similarity.masked_fill(pairs.same, -torch.inf).amax(1, keepdim=True)
        return PairMasks(
            pairs.positive & (similarity < nearest + self.epsilon),
            pairs.negative & (similarity > farthest - self.epsilon),
        )
