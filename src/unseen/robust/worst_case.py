"""The worst case over an uncertainty set: the weights that make a weighted loss of pairs largest."""

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from unseen.pairs.functional import weighted_sum, with_gradient
from unseen.pairs.pair_terms import PairTerms


class WorstCase(NamedTuple):
    """What an uncertainty set makes of the losses of pairs.

    `value` is the largest objective over the set; its gradient is that of the losses weighed by `weights`, which are
    detached (Danskin: where the best weights move, the objective does not change to first order). `is_directed`: the
    pairs (i, j) and (j, i) weigh each on their own; else a pair's weight stands in one of the two places.
    """

    value: Tensor
    weights: Tensor
    is_directed: bool = False


class Uncertainty(Protocol):
    """A set of weights over pairs, with the objective that the worst of them maximises."""

    def worst_case(self, terms: PairTerms, *, key: int | None = None) -> WorstCase:
        """The worst weights for these losses and the objective there; `key` governs draws, if there are any."""


def all_pairs(terms: PairTerms) -> Tensor:
    """The mask of all pairs, each unordered pair once."""
    return terms.once(terms.is_positive | terms.is_negative)


def weighed(terms: PairTerms, weights: Tensor, value: Tensor | None = None, *, is_directed: bool = False) -> WorstCase:
    """The worst case with these weights; its value, if not the weighted sum of the losses, comes with them."""
    if value is None:
        return WorstCase(weighted_sum(terms.values, weights), weights, is_directed)
    return WorstCase(with_gradient(terms.values, value, weights), weights, is_directed)


def hardest(terms: PairTerms, mask: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Positions, in the flattened matrix, of the largest losses under a mask, largest first, and 1 for each.

    Where the mask has fewer than `count` entries, the positions at the end point outside it and have a 0.
    """
    values = terms.values.detach().masked_fill(~mask, -torch.inf).flatten()
    found = values.topk(min(count, len(values)))
    return found.indices, (found.values > -torch.inf).to(values.dtype)


def placed(terms: PairTerms, positions: Tensor, weights: Tensor) -> Tensor:
    """The weights at their positions in a matrix of zeros; those at one position add up."""
    return terms.values.new_zeros(terms.values.numel()).index_add_(0, positions, weights).view_as(terms.values)
