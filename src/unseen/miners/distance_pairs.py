"""Distance-weighted pairs: all positive pairs, and per anchor as many distance-weighted negative pairs."""

import torch
from torch import Tensor

from unseen.core.registry import miner
from unseen.miners.distance import DistanceWeighted, log_inverse_density
from unseen.pairs.pairs import Pairs, pairs_of
from unseen.pairs.random_choice import draw_distinct, gumbel_numbers
from unseen.pairs.tuples import PairIndices, PairMasks

BEYOND = 100.0
"""How far the log-weights of negatives beyond the cut-off lie below the others: they are drawn last."""


@miner("distance_pairs")
class DistancePairs:
    r"""All positive pairs, and per anchor as many distance-weighted negative pairs.

    .. math:: k \in P_i, \qquad |P_i| \text{ different } k \in N_i : \quad P(k) \propto 1/q(\max(d_{ik}, c))

    ================  ==========================================================================================
    d                 Euclidean distance of the normalised embeddings
    P_i, N_i          others with the label of i; others with another label
    q                 as in ``miners.DistanceWeighted``
    c                 ``lower_cutoff`` (in (0, 2)): nearer negatives get the weight of this distance
    ``upper_cutoff``  negatives farther than this are drawn only when the nearer ones are used up; None: no cut-off
    ================  ==========================================================================================

    The negatives of an anchor are drawn without replacement.

    Shape:      n embeddings -> indices of positive and of negative pairs
    Empty:      beyond the upper cut-off all negatives are equally likely; an anchor with fewer negatives than
                positives gets all of them; one without positives or without negatives gets no pair
    Reference:  Qi et al., A Simple and Effective Framework for Pairwise Deep Metric Learning, ECCV 2020,
                arXiv:1912.11194; after Wu et al., Sampling Matters in Deep Embedding Learning, ICCV 2017,
                arXiv:1706.07567
    Differs:    no negative is drawn twice, so that positive and negative pairs are equally many
    """

    def __init__(self, *, lower_cutoff: float = 0.5, upper_cutoff: float | None = 1.4) -> None:
        DistanceWeighted(lower_cutoff=lower_cutoff, upper_cutoff=upper_cutoff)  # checks the cut-offs
        self.lower_cutoff, self.upper_cutoff = lower_cutoff, upper_cutoff

    @torch.no_grad()
    def __call__(
        self, embeddings: Tensor | Pairs, labels: Tensor | None = None, *, key: int | None = None
    ) -> PairIndices:
        """The pairs of a batch, a function of embeddings, labels and key."""
        return self.masks(pairs_of(embeddings, labels), key).indices()

    @torch.no_grad()
    def masks(self, pairs: Pairs, key: int | None = None) -> PairMasks:
        """The pairs as masks, for losses that need no indices."""
        pairs = pairs.detached
        negative = draw_distinct(self.log_weights(pairs), pairs.positive_count, gumbel_numbers(pairs, key))
        return PairMasks(pairs.positive & (pairs.negative_count > 0).unsqueeze(1), negative)

    def log_weights(self, pairs: Pairs) -> Tensor:
        """The log of the sampling weight of every pair, -inf for pairs that are never drawn."""
        logarithm = log_inverse_density(pairs.similarity, pairs.width, self.lower_cutoff)
        if self.upper_cutoff is not None:
            is_beyond = pairs.negative & (pairs.similarity < 1 - self.upper_cutoff**2 / 2)
            lowest = logarithm.masked_fill(pairs.same | is_beyond, torch.inf).amin(1, keepdim=True)
            lowest.masked_fill_(lowest == torch.inf, 0)
            logarithm = torch.where(is_beyond, lowest - BEYOND, logarithm)
        return logarithm.masked_fill_(pairs.same, -torch.inf)
