"""Pair terms: the loss of every pair of a batch before anyone reduces it, for losses that are sums over pairs."""

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from unseen.losses.pairs import Pairs, masked_mean
from unseen.losses.tuples import Miner, Outcome, PairMasks, Triplets, as_masks


class PairTerms(NamedTuple):
    """The losses of pairs as a matrix, rows for anchors, and which of its entries are pairs of which kind.

    ===============  ===========================================================================================
    ``values``       n x m losses; entries that are no pair may be anything finite
    ``is_positive``  n x m, the pairs of one class
    ``is_negative``  n x m, the pairs of two classes
    ``is_mutual``    whether rows and columns are the same samples, so that (i, j) and (j, i) are one pair
    ``neutral``      the losses of an imagined positive and negative pair at the neutral similarity, if there is one
    ``is_anchor``    n, the rows that had both kinds of pair before zeros went; None: the masks say it
    ===============  ===========================================================================================
    """

    values: Tensor
    is_positive: Tensor
    is_negative: Tensor
    is_mutual: bool = False
    neutral: tuple[float, float] | None = None
    is_anchor: Tensor | None = None

    def chosen(self, masks: PairMasks) -> "PairTerms":
        """The same losses with other masks."""
        return self._replace(is_positive=masks.positive, is_negative=masks.negative, is_anchor=None)

    def once(self, mask: Tensor) -> Tensor:
        """A mask that holds each unordered pair of this mask once: above the diagonal where (i, j) is (j, i)."""
        return (mask | mask.T).triu(1) if self.is_mutual else mask

    def without_zeros(self) -> "PairTerms":
        """The same losses; pairs whose loss is exactly 0 are no longer in the masks."""
        is_left = self.values.detach() != 0
        return self._replace(
            is_positive=self.is_positive & is_left, is_negative=self.is_negative & is_left, is_anchor=self.anchors()
        )

    def anchors(self) -> Tensor:
        """The rows that have both kinds of pair, or had them before their zeros went."""
        return self.is_positive.any(1) & self.is_negative.any(1) if self.is_anchor is None else self.is_anchor


class PairLoss(Protocol):
    """A loss that is a sum over pairs and gives its terms; `Robust` weighs them."""

    miner: Miner | None

    def terms(self, pairs: Pairs) -> PairTerms:
        """The losses of all pairs of a batch."""


def terms_of(pairs: Pairs, values: Tensor, neutral: tuple[float, float] | None = None) -> PairTerms:
    """The terms of all pairs of a batch with these losses."""
    return PairTerms(values, pairs.positive, pairs.negative, pairs.is_self, neutral)


def by_sign(pairs: Pairs, positive: float, negative: float) -> Tensor:
    """A matrix with one number where the labels are equal and another where they differ."""
    return torch.where(pairs.same, pairs.similarity.new_tensor(positive), pairs.similarity.new_tensor(negative))


def mean_of(pairs: Pairs, terms: PairTerms, chosen: Triplets | PairMasks) -> Outcome:
    """The mean over all chosen pairs, positive and negative alike; 0, connected to the graph, if there are none."""
    masks = as_masks(pairs, chosen)
    is_chosen = masks.positive | masks.negative
    active = ((terms.values.detach() > 0) & is_chosen).sum()
    return Outcome(masked_mean(terms.values, is_chosen), is_chosen.sum(), active)
