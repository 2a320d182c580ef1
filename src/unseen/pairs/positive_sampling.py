"""Drawn positives: one positive for each anchor, drawn from the key, as N-pair and angular losses take it."""

import torch
from torch import Tensor

from unseen.core.randomness import derive
from unseen.pairs.functional import masked_softmax
from unseen.pairs.pairs import Pairs
from unseen.pairs.random_choice import draw, uniform_numbers
from unseen.pairs.tuples import PairMasks, Triplets, as_masks


def with_one_positive(pairs: Pairs, chosen: Triplets | PairMasks, key: int | None) -> PairMasks:
    """The chosen pairs with one of the positives of each anchor, all equally likely, and all of its negatives."""
    chosen = as_masks(pairs, chosen)
    column = drawn_positives(pairs, chosen, key)
    return PairMasks(torch.arange(chosen.positive.shape[1], device=column.device) == column, chosen.negative)


def drawn_positives(pairs: Pairs, chosen: PairMasks, key: int | None) -> Tensor:
    """For each row the column of one of its positives, n x 1; one without positives gives the number of columns."""
    # A key of its own: the miner may have drawn from the same one.
    key = None if key is None else derive(key, "drawn positives")
    return draw(chosen.positive, uniform_numbers(pairs, key, draws=1, per_anchor=1)[0])


def counted_negatives(exponents: Tensor, negative: Tensor, is_meant: Tensor) -> tuple[Tensor, Tensor]:
    """log(1 + sum of exp over the negatives of an anchor), averaged over those that are meant; its slopes.

    Overwrites the exponents.
    """
    log_total, slope = masked_softmax(exponents, negative, with_one=True)
    share = is_meant / is_meant.sum(dtype=slope.dtype).clamp_(min=1)
    # A dot product would be rounded to half precision under autocast.
    return (log_total.squeeze(1) * share).sum(), slope.mul_(share.unsqueeze(1))
