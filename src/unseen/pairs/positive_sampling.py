"""One random positive per anchor, drawn from the key, and the N-pair terms, for N-pair and angular losses."""

import torch
from torch import Tensor

from unseen.core.randomness import derive
from unseen.pairs.functional import log1p_sum_exp
from unseen.pairs.pairs import Pairs
from unseen.pairs.random_choice import draw, uniform_numbers
from unseen.pairs.tuples import PairMasks, Triplets, as_masks


def with_one_positive(pairs: Pairs, chosen: Triplets | PairMasks, key: int | None) -> PairMasks:
    """The chosen pairs with one uniformly drawn positive per anchor, and all negatives."""
    chosen = as_masks(pairs, chosen)
    column = draw_positives(pairs, chosen, key)
    return PairMasks(torch.arange(chosen.positive.shape[1], device=column.device) == column, chosen.negative)


def draw_positives(pairs: Pairs, chosen: PairMasks, key: int | None) -> Tensor:
    """The column of one uniformly drawn positive per row, n x 1; the number of columns where a row has none."""
    # A key of its own: the miner may have drawn from the same one.
    key = None if key is None else derive(key, "drawn positives")
    return draw(chosen.positive, uniform_numbers(pairs, key, draws=1, per_anchor=1)[0])


def n_pair_terms(products: Tensor, column: Tensor, negative: Tensor, *, exponent_limit: float | None) -> Tensor:
    """Per row log(1 + sum over its negatives of exp(product - product with the positive)), as in the N-pair loss.

    `column` holds the column of each row's positive. `exponent_limit` clamps the differences on both sides.
    """
    own = products.gather(1, column)
    if exponent_limit is None:
        return log1p_sum_exp(products, negative, center=own)
    return log1p_sum_exp((products - own).clamp(-exponent_limit, exponent_limit), negative)
