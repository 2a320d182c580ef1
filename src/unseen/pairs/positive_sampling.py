"""One random positive per anchor, drawn from the key, and the N-pair terms, for N-pair and angular losses."""

from typing import NamedTuple

from torch import Tensor

from unseen.core.randomness import derive
from unseen.pairs.functional import log1p_sum_exp, row_counts
from unseen.pairs.pairs import Pairs
from unseen.pairs.random_choice import draw, uniform_numbers
from unseen.pairs.tuples import PairMasks, Triplets, as_masks


class DrawnPairs(NamedTuple):
    """Column of one positive per row, n x 1, all negatives, and which rows have both; the others hold any column."""

    column: Tensor
    negative: Tensor
    is_anchor: Tensor


def draw_positives(pairs: Pairs, chosen: Triplets | PairMasks, key: int | None) -> DrawnPairs:
    """One uniformly drawn positive per anchor, and all its negatives."""
    positive, negative = as_masks(pairs, chosen)
    # A key of its own: the miner may have drawn from the same one.
    key = None if key is None else derive(key, "drawn positives")
    column = draw(positive, uniform_numbers(pairs, key, draws=1, per_anchor=1)[0])
    is_anchor = (column.squeeze(1) < positive.shape[1]) & (row_counts(negative) > 0)
    return DrawnPairs(column.clamp_(max=positive.shape[1] - 1), negative, is_anchor)


def n_pair_terms(products: Tensor, drawn: DrawnPairs, *, exponent_limit: float | None) -> Tensor:
    """Per row log(1 + sum over its negatives of exp(product - product with the positive)), as in the N-pair loss.

    `exponent_limit` clamps the differences on both sides.
    """
    own = products.gather(1, drawn.column)
    if exponent_limit is None:
        return log1p_sum_exp(products, drawn.negative, center=own)
    return log1p_sum_exp((products - own).clamp(-exponent_limit, exponent_limit), drawn.negative)
