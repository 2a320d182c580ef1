"""Compiled inner products in whole numbers, which decide where float32 cannot.

To be imported where they are used, not at the top of a module: loading the compiler takes a second.
"""

import numpy as np
from numpy.typing import NDArray

from unseen.evaluation.exact.compiled import compiled, compiled_in_any_order
from unseen.evaluation.exact.directions import SCALE
from unseen.evaluation.exact.thresholds import Side


@compiled_in_any_order
def whole_product(
    one: NDArray[np.float32],
    two: NDArray[np.float32],
    rest_of_one: int,
    rest_of_two: int,
    rests_of_ones: NDArray[np.int8],
    rests_of_twos: NDArray[np.int8],
) -> float:
    """The inner product of two rows in whole numbers: below 2^53, so float64 holds it and every part of it exactly."""
    total = 0.0
    for place in range(one.shape[0]):
        total += np.float64(one[place]) * np.float64(two[place])
    total *= SCALE * SCALE
    if rest_of_one >= 0:
        for place in range(one.shape[0]):
            total += np.float64(rests_of_ones[rest_of_one, place]) * (np.float64(two[place]) * SCALE)
    if rest_of_two >= 0:
        for place in range(one.shape[0]):
            total += np.float64(rests_of_twos[rest_of_two, place]) * (np.float64(one[place]) * SCALE)
    if rest_of_one >= 0 and rest_of_two >= 0:
        for place in range(one.shape[0]):
            total += np.float64(rests_of_ones[rest_of_one, place]) * np.float64(rests_of_twos[rest_of_two, place])
    return total


@compiled
def exact_similarity(asked: Side, query: int, items: Side, item: int) -> float:
    """The similarity of a query to an item, as exact as the directions are; the query's own length is left out."""
    return items.inverse_norms[item] * whole_product(
        asked.single[query],
        items.single[item],
        asked.rest_of[query],
        items.rest_of[item],
        asked.rest,
        items.rest,
    )
