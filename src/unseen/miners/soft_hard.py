"""Soft-hard mining: positives farther than the nearest negative, negatives nearer than the farthest positive."""

import torch
from torch import Tensor

from unseen.core.checks import check_count
from unseen.core.registry import miner
from unseen.pairs.pairs import Pairs, pairs_of
from unseen.pairs.random_choice import draw_triplets, uniform_numbers
from unseen.pairs.tuples import Triplets


@miner("soft_hard")
class SoftHard:
    r"""Soft-hard triplets: a positive and a negative, each uniform among those that violate the ranking.

    .. math:: p \sim U\{p \in P_a : d_{ap} > \min_{N_a} d\}, \quad n \sim U\{n \in N_a : d_{an} < \max_{P_a} d\}

    ==============  ======================================================================
    d               Euclidean distance of the normalised embeddings
    P_a, N_a        others with the label of a; others with another label
    per_anchor      triplets per anchor (>= 1), drawn independently
    ==============  ======================================================================

    Positive and negative are drawn independently of each other.

    Shape:      n embeddings -> triplets of per_anchor x (anchors with a positive and a negative)
    Empty:      where no positive (negative) violates the ranking, a uniform one of all; anchors without positives or
                negatives are left out
    Reference:  Roth et al., Revisiting Training Strategies and Generalization Performance in Deep Metric Learning,
                ICML 2020, arXiv:2002.08473
    Differs:    minimum and maximum where their equations 21 and 22 print arg min and arg max, as their code does
    """

    def __init__(self, *, per_anchor: int = 1) -> None:
        check_count("SoftHard", "per_anchor", per_anchor)
        self.per_anchor = per_anchor

    @torch.no_grad()
    def __call__(self, embeddings: Tensor | Pairs, labels: Tensor | None = None, *, key: int | None = None) -> Triplets:
        """The triplets of a batch, a function of embeddings, labels and key."""
        pairs = pairs_of(embeddings, labels).detached
        numbers = uniform_numbers(pairs, key, draws=2, per_anchor=self.per_anchor)
        # Farther is less similar. Without positives (negatives) the bound excludes every pair of the opposite kind.
        farthest = torch.where(pairs.positive, pairs.similarity, torch.inf).amin(1, keepdim=True)
        nearest = pairs.similarity.masked_fill(pairs.same, -torch.inf).amax(1, keepdim=True)
        positive = _or_any(pairs.positive & (pairs.similarity < nearest), pairs.positive)
        negative = _or_any(pairs.negative & (pairs.similarity > farthest), pairs.negative)
        return draw_triplets(pairs, positive, negative, numbers)


def _or_any(hard: Tensor, every: Tensor) -> Tensor:
    return torch.where(hard.any(1, keepdim=True), hard, every)
