"""Distance-weighted sampling: negatives drawn so that all distances are about equally likely."""

import numpy as np
import torch
from torch import Tensor

from unseen.core.checks import check_between, check_count
from unseen.core.errors import ConfigError
from unseen.core.registry import miner
from unseen.pairs.functional.small import flags, floats, is_small
from unseen.pairs.pairs import Pairs, pairs_of
from unseen.pairs.random_choice import draw_distinct, draw_triplets, gumbel_numbers, uniform_numbers
from unseen.pairs.tuples import PairIndices, PairMasks, Triplets

BEYOND = 100.0
"""How far the log-weights of negatives beyond the cut-off of `DistancePairs` lie below the others: drawn last."""


def log_inverse_density(similarity: Tensor, width: int, lower_cutoff: float) -> Tensor:
    """Log of the inverse density of distances between uniform points of a sphere, up to a constant.

    On the sphere d^2 = 2 - 2s, so (2 - D) log d - (D - 3)/2 log(1 - d^2/4) is, up to a constant,
    (3 - D)/2 log(1 - s^2) - 1/2 log(1 - s). Distances are clamped to at least the cut-off, and 1 - s^2 to at least
    4e-8, so that antipodes stay finite.
    """
    capped = similarity.clamp(max=1 - lower_cutoff**2 / 2)
    logarithm = torch.rsub(capped.square(), 1).clamp_(min=4e-8).log_().mul_((3 - width) / 2)
    return logarithm.sub_(torch.rsub(capped, 1).log_(), alpha=0.5)


@miner("distance")
class DistanceWeighted:
    r"""Distance-weighted triplets: a uniform positive, and a negative with odds inverse to its distance's density.

    .. math:: p \sim U(P_a), \quad P(n) \propto 1/q(\max(d_{an}, c)), \quad
              \log q(d) = (D - 2) \log d + \tfrac{D - 3}2 \log(1 - d^2/4)

    ================  ==========================================================================================
    d, D              Euclidean distance of the normalised embeddings, and their width
    P_a, N_a          others with the label of a; others with another label, n among them
    c                 ``lower_cutoff`` (in (0, 2)): nearer negatives get the weight of this distance
    ``upper_cutoff``  negatives farther than this are not drawn; None draws at any distance
    per_anchor        triplets per anchor (>= 1), drawn independently
    ================  ==========================================================================================

    Weights are normalized per anchor, so that every anchor with a positive and a negative has triplets.

    Shape:      n embeddings -> triplets of per_anchor x (anchors with a positive and a negative)
    Empty:      where all negatives are beyond the upper cut-off, any of them, uniformly; anchors without positives or
                negatives are left out
    Reference:  Wu et al., Sampling Matters in Deep Embedding Learning, ICCV 2017, arXiv:1706.07567
    Differs:    nothing; the code of Roth et al. (arXiv:2002.08473) has no upper cut-off: ``upper_cutoff=None``
    """

    def __init__(self, *, lower_cutoff: float = 0.5, upper_cutoff: float | None = 1.4, per_anchor: int = 1) -> None:
        check_between("DistanceWeighted", "lower_cutoff", lower_cutoff, 1e-3, 1.999)
        if upper_cutoff is not None:
            check_between("DistanceWeighted", "upper_cutoff", upper_cutoff, 0, 2)
            if upper_cutoff < lower_cutoff:
                raise ConfigError(
                    f"DistanceWeighted: upper_cutoff must be at least lower_cutoff ({lower_cutoff})", got=upper_cutoff
                )
        check_count("DistanceWeighted", "per_anchor", per_anchor)
        self.lower_cutoff, self.upper_cutoff, self.per_anchor = lower_cutoff, upper_cutoff, per_anchor

    @torch.no_grad()
    def __call__(self, embeddings: Tensor | Pairs, labels: Tensor | None = None, *, key: int | None = None) -> Triplets:
        """The triplets of a batch, a function of embeddings, labels and key."""
        pairs = pairs_of(embeddings, labels).detached
        numbers = uniform_numbers(pairs, key, draws=2, per_anchor=self.per_anchor)
        return draw_triplets(pairs, pairs.positive, self.weights(pairs), numbers)

    def weights(self, pairs: Pairs) -> Tensor:
        """The sampling weight of every pair, 0 for pairs that are never drawn; the largest weight per anchor is 1."""
        if is_small(pairs.similarity):
            return self._small_weights(pairs)
        is_excluded = pairs.same
        if self.upper_cutoff is not None:
            is_excluded = is_excluded | (pairs.similarity < 1 - self.upper_cutoff**2 / 2)
        logarithm = log_inverse_density(pairs.similarity, pairs.width, self.lower_cutoff)
        largest = logarithm.masked_fill_(is_excluded, -torch.inf).amax(1, keepdim=True)
        # exp(-80) adds nothing to a total of at least 1, and smaller exponentials take several times as long.
        weights = logarithm.sub_(largest).clamp_(min=-80).exp_().masked_fill_(is_excluded, 0)
        if largest.amin().item() > -torch.inf:
            return weights
        return torch.where(largest == -torch.inf, pairs.negative.to(weights.dtype), weights)

    def _small_weights(self, pairs: Pairs) -> Tensor:
        """The same numbers, to the bit, by compiled loops; logarithms and exponentials are those of torch."""
        from unseen.pairs.kernels.draws import clear_excluded, density_factors, log_weights

        similarity, same = floats(pairs.similarity), flags(pairs.same)
        factors, is_fallback = torch.empty(2, *similarity.shape), np.empty(len(similarity), np.uint8)
        numbers = factors.numpy()
        density_factors(similarity, np.float32(1 - self.lower_cutoff**2 / 2), numbers)
        factors.log_()
        lowest = np.float32(-np.inf if self.upper_cutoff is None else 1 - self.upper_cutoff**2 / 2)
        log_weights(numbers, np.float32((3 - pairs.width) / 2), same, similarity, lowest, is_fallback)
        weights = factors[0].exp_()
        clear_excluded(numbers[0], same, similarity, lowest, is_fallback)
        return weights


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
