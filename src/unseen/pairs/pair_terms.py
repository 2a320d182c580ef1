"""Pair terms: the loss of each pair of a batch before reduction, for losses that are sums over pairs."""

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from unseen.pairs.functional import as_numbers, row_counts, with_gradient
from unseen.pairs.pairs import Pairs
from unseen.pairs.tuples import LossOutput, Miner, PairMasks, Triplets, as_masks


class PairTerms(NamedTuple):
    """Losses of pairs as a matrix with a row per anchor, and masks of its positive and negative pairs.

    ================  ===========================================================================================
    ``values``        n x m losses; entries outside both masks may be any finite number
    ``is_positive``   n x m, pairs with equal labels
    ``is_negative``   n x m, pairs with different labels
    ``is_mutual``     whether rows and columns are the same samples, so that (i, j) and (j, i) are one pair
    ``neutral``       losses of a positive and a negative pair at the neutral similarity, if the loss has one
    ``is_symmetric``  whether the masks hold (j, i) wherever they hold (i, j), as without a miner
    ``before``        the masks before `without_zeros`, if it was called
    ================  ===========================================================================================
    """

    values: Tensor
    is_positive: Tensor
    is_negative: Tensor
    is_mutual: bool = False
    neutral: tuple[float, float] | None = None
    is_symmetric: bool = False
    before: PairMasks | None = None

    def chosen(self, masks: PairMasks) -> "PairTerms":
        """The same losses with other masks."""
        if masks.positive is self.is_positive and masks.negative is self.is_negative:
            return self
        return self._replace(is_positive=masks.positive, is_negative=masks.negative, is_symmetric=False, before=None)

    def once(self, mask: Tensor) -> Tensor:
        """The mask with each unordered pair once: above the diagonal where (i, j) and (j, i) are one pair."""
        if not self.is_mutual:
            return mask
        return (mask if self.is_symmetric else mask | mask.T.contiguous()).triu(1)

    def total(self) -> Tensor:
        """Number of pairs, each unordered pair counted once."""
        mask = self.is_positive | self.is_negative
        return mask.count_nonzero() // 2 if self.is_symmetric else self.once(mask).count_nonzero()

    def without_zeros(self) -> "PairTerms":
        """The same losses without the pairs whose loss is exactly 0."""
        is_left = self.values.detach().bool()
        before = PairMasks(self.is_positive, self.is_negative)
        return self._replace(
            is_positive=before.positive & is_left, is_negative=before.negative & is_left, before=before
        )

    def anchors(self) -> Tensor:
        """Rows with both a positive and a negative pair, counting those that `without_zeros` removed."""
        positive, negative = self.before or (self.is_positive, self.is_negative)
        return (row_counts(positive) > 0) & (row_counts(negative) > 0)


class Anchors(NamedTuple):
    """The chosen pairs by anchor: whether it has both a positive and a negative pair, and how many pairs in all."""

    is_complete: Tensor
    num_pairs: Tensor

    def output(self, value: Tensor, is_active: Tensor | None = None) -> LossOutput:
        """The output of a loss that uses the pairs of complete anchors; `is_active` says of which (None: of all)."""
        num_pairs = self.num_pairs * self.is_complete
        return LossOutput(value, num_pairs, num_pairs if is_active is None else num_pairs * is_active)


def counts_of(pairs: Pairs, chosen: PairMasks) -> tuple[Tensor, Tensor]:
    """Number of chosen positives and of chosen negatives of each anchor."""
    positive = pairs.positive_count if chosen.positive is pairs.positive else row_counts(chosen.positive)
    negative = pairs.negative_count if chosen.negative is pairs.negative else row_counts(chosen.negative)
    return positive, negative


def anchors_of(pairs: Pairs, chosen: PairMasks) -> Anchors:
    """Which anchors have both kinds of chosen pairs, and how many pairs."""
    positive, negative = counts_of(pairs, chosen)
    return Anchors((positive > 0) & (negative > 0), positive + negative)


class PairTermLoss(Protocol):
    """A loss that is a sum over pairs and can return its terms; `Robust` reweights them."""

    miner: Miner | None

    def terms(self, pairs: Pairs) -> PairTerms:
        """Losses of all pairs of a batch."""


def terms_of(pairs: Pairs, values: Tensor, neutral: tuple[float, float] | None = None) -> PairTerms:
    """Terms of all pairs of a batch from their n x m losses."""
    return PairTerms(values, pairs.positive, pairs.negative, pairs.is_self, neutral, is_symmetric=pairs.is_self)


def by_sign(pairs: Pairs, positive: float, negative: float) -> Tensor:
    """A matrix with one number where labels are equal and another where they differ."""
    return torch.where(pairs.same, pairs.similarity.new_tensor(positive), pairs.similarity.new_tensor(negative))


def mean_of(pairs: Pairs, terms: PairTerms, chosen: Triplets | PairMasks) -> LossOutput:
    """The mean over all chosen pairs, positive and negative alike; 0, connected to the graph, if there are none."""
    masks = as_masks(pairs, chosen)
    weights = as_numbers(masks.positive | masks.negative, terms.values.dtype)
    num_pairs = weights.sum(1).long().sum()
    chosen_values = terms.values.detach() * weights
    value = with_gradient(terms.values, chosen_values.sum(), weights) / num_pairs.clamp(min=1)
    return LossOutput(value, num_pairs, chosen_values.sign_().sum(1))
