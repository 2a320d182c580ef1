"""The worst case over an uncertainty set: the weights that maximize a weighted loss of pairs."""

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from unseen.pairs.functional import weighted_sum, with_gradient
from unseen.pairs.pair_terms import PairTerms


class WorstCase(NamedTuple):
    """The largest objective over an uncertainty set, and the weights that attain it.

    The gradient of `value` is that of the losses weighted by `weights`, which are detached (Danskin's theorem).
    `is_directed`: (i, j) and (j, i) have separate weights; otherwise the weight of a pair is at one of the two.
    """

    value: Tensor
    weights: Tensor
    is_directed: bool = False


class Uncertainty(Protocol):
    """A set of weights over pairs, and the objective that is maximized over it."""

    def worst_case(self, terms: PairTerms, *, key: int | None = None) -> WorstCase:
        """The worst-case weights and objective for these losses; `key` decides random draws, if there are any."""


def all_pairs(terms: PairTerms) -> Tensor:
    """The mask of all pairs, each unordered pair once."""
    return terms.once(terms.is_positive | terms.is_negative)


def weighted(terms: PairTerms, weights: Tensor, value: Tensor | None = None, *, is_directed: bool = False) -> WorstCase:
    """The worst case with these weights; `value` is the weighted sum of the losses unless stated."""
    if value is None:
        return WorstCase(weighted_sum(terms.values, weights), weights, is_directed)
    return WorstCase(with_gradient(terms.values, value, weights), weights, is_directed)


def hardest(terms: PairTerms, mask: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Positions, in the flattened matrix, of the `count` largest losses in a mask, largest first, and 1 for each.

    If the mask has fewer entries, the positions at the end are outside it and have a 0.
    """
    values = terms.values.detach().masked_fill(~mask, -torch.inf).flatten()
    largest = values.topk(min(count, len(values)))
    return largest.indices, (largest.values > -torch.inf).to(values.dtype)


def scatter_weights(terms: PairTerms, positions: Tensor, weights: Tensor) -> Tensor:
    """A matrix with the weights at their positions, zero elsewhere; weights at one position add up."""
    return terms.values.new_zeros(terms.values.numel()).index_add_(0, positions, weights).view_as(terms.values)
