"""Batch-hard mining: the farthest positive and the nearest negative of each anchor."""

import torch
from torch import Tensor

from unseen.core.registry import miner
from unseen.pairs.pairs import Pairs, pairs_of
from unseen.pairs.random_choice import triplets_of
from unseen.pairs.tuples import Triplets


@miner("hard")
class Hard:
    r"""Batch-hard triplets: the farthest positive and the nearest negative of each anchor.

    .. math:: p = \arg\max_{P_a} d_{ap}, \quad n = \arg\min_{N_a} d_{an}

    ==============  ============================================================
    d               Euclidean distance of the normalised embeddings
    P_a, N_a        others with the label of a; others with another label
    ==============  ============================================================

    Shape:      n embeddings -> one triplet per anchor with a positive and a negative
    Empty:      anchors without positives or negatives are left out; of equally hard samples the first is taken; the
                key is not used
    Reference:  Hermans et al., In Defense of the Triplet Loss for Person Re-Identification, 2017, arXiv:1703.07737
    Differs:    distances of normalised embeddings; the paper does not normalise
    """

    @torch.no_grad()
    def __call__(self, embeddings: Tensor | Pairs, labels: Tensor | None = None, *, key: int | None = None) -> Triplets:
        """The triplets of a batch, a function of embeddings and labels."""
        pairs = pairs_of(embeddings, labels).detached
        farthest, positive = torch.where(pairs.positive, pairs.similarity, torch.inf).min(1, keepdim=True)
        nearest, negative = pairs.similarity.masked_fill(pairs.same, -torch.inf).max(1, keepdim=True)
        missing = len(pairs.ref_labels)
        positive.masked_fill_(farthest == torch.inf, missing)
        negative.masked_fill_(nearest == -torch.inf, missing)
        return triplets_of(pairs, positive, negative)
