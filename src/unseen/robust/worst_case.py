"""The worst case over an uncertainty set: the weights that make a weighted loss of pairs largest."""

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from unseen.losses.pair_terms import PairTerms


class WorstCase(NamedTuple):
    """What an uncertainty set makes of the losses of pairs.

    `value` is the largest objective over the set; its gradient is that of the losses weighed by `weights`, which are
    detached (Danskin: where the best weights move, the objective does not change to first order).
    """

    value: Tensor
    weights: Tensor


class Uncertainty(Protocol):
    """A set of weights over pairs, with the objective that the worst of them maximises."""

    def worst_case(self, terms: PairTerms, *, key: int | None = None) -> WorstCase:
        """The worst weights for these losses and the objective there; `key` governs draws, if there are any."""


def all_pairs(terms: PairTerms) -> Tensor:
    """The mask of all pairs, each unordered pair once."""
    return terms.once(terms.is_positive | terms.is_negative)


def weighed(terms: PairTerms, weights: Tensor, penalty: Tensor | None = None) -> WorstCase:
    """The weighted sum of the losses, less a penalty that is a constant for the gradient."""
    value = (weights * terms.values).sum()
    return WorstCase(value if penalty is None else value - penalty, weights)


def largest(terms: PairTerms, mask: Tensor, count: int) -> Tensor:
    """Positions, in the flattened matrix, of the largest losses under a mask, largest first.

    Where the mask has fewer than `count` entries, the positions at the end point outside it.
    """
    values = terms.values.detach().masked_fill(~mask, -torch.inf).flatten()
    return values.topk(min(count, len(values))).indices
