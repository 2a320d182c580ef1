"""One random positive per anchor, drawn from the key, and the N-pair terms, for N-pair and angular losses."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from unseen.core.randomness import derive
from unseen.pairs.functional import log1p_sum_exp, with_gradient
from unseen.pairs.functional.small import flags, floats
from unseen.pairs.pair_terms import counts_of
from unseen.pairs.pairs import Pairs
from unseen.pairs.random_choice import draw, uniform_numbers
from unseen.pairs.tuples import PairMasks, Triplets, as_masks
from unseen.pairs.unnormalized import Regularizer


class DrawnPairs(NamedTuple):
    """Column of one positive per row, n x 1, all negatives, and which rows have both; the others hold any column."""

    column: Tensor
    negative: Tensor
    is_anchor: Tensor


def draw_positives(pairs: Pairs, chosen: Triplets | PairMasks, key: int | None) -> DrawnPairs:
    """One uniformly drawn positive per anchor, and all its negatives."""
    masks = as_masks(pairs, chosen)
    positive, negative = masks
    # A key of its own: the miner may have drawn from the same one.
    key = None if key is None else derive(key, "drawn positives")
    column = draw(positive, uniform_numbers(pairs, key, draws=1, per_anchor=1)[0])
    is_anchor = (column.squeeze(1) < positive.shape[1]) & (counts_of(pairs, masks)[1] > 0)
    return DrawnPairs(column.clamp_(max=positive.shape[1] - 1), negative, is_anchor)


def small_n_pair(
    products: Tensor, drawn: DrawnPairs, *, angle: tuple[float, float] | None, penalty: tuple[float, Regularizer]
) -> Tensor:
    """The N-pair or angular loss of a small batch from the products of its rows, by compiled loops.

    `angle`: tan^2 of the angle and the weight of the angular part; `penalty`: weight and kind of the length penalty.
    """
    from unseen.pairs.kernels.n_pair import add_angles, add_lengths, add_n_pairs

    slope, numbers = torch.zeros_like(products), floats(products)
    slopes, columns = slope.numpy(), drawn.column.numpy()
    negative, is_anchor = flags(drawn.negative), flags(drawn.is_anchor)
    count = max(1, int(is_anchor.sum()))
    value = add_n_pairs(numbers, columns, negative, is_anchor, slopes)
    if angle is not None:
        value += angle[1] * add_angles(numbers, columns, negative, is_anchor, np.array(angle, np.float32), slopes)
    slope.div_(count)
    value /= count
    if penalty[0] and is_anchor.any():
        weight = penalty[0] / len(products)
        value += weight * add_lengths(numbers, np.float32(weight), penalty[1] == "squared_norm", slopes)
    return with_gradient(products, products.new_tensor(value), slope)


def n_pair_terms(products: Tensor, drawn: DrawnPairs, *, exponent_limit: float | None) -> Tensor:
    """Per row log(1 + sum over its negatives of exp(product - product with the positive)), as in the N-pair loss.

    `exponent_limit` clamps the differences on both sides.
    """
    own = products.gather(1, drawn.column)
    if exponent_limit is None:
        return log1p_sum_exp(products, drawn.negative, center=own)
    return log1p_sum_exp((products - own).clamp(-exponent_limit, exponent_limit), drawn.negative)
