"""Compiled inner products in integers, which decide where float32 cannot."""

import numpy as np

from unseen.evaluation.exact.arrays import Float32s, Int8s
from unseen.evaluation.exact.directions import SCALE
from unseen.evaluation.exact.kernels import compiled, compiled_in_any_order
from unseen.evaluation.exact.thresholds import Side


@compiled_in_any_order
def integer_product(
    one: Float32s,
    two: Float32s,
    index_of_one: int,
    index_of_two: int,
    remainders_of_one: Int8s,
    remainders_of_two: Int8s,
) -> float:
    """The inner product of two rows in integers: below 2^53, so float64 holds every partial sum exactly."""
    total = 0.0
    for k in range(one.shape[0]):
        total += np.float64(one[k]) * np.float64(two[k])
    total *= SCALE * SCALE
    if index_of_one >= 0:
        for k in range(one.shape[0]):
            total += np.float64(remainders_of_one[index_of_one, k]) * (np.float64(two[k]) * SCALE)
    if index_of_two >= 0:
        for k in range(one.shape[0]):
            total += np.float64(remainders_of_two[index_of_two, k]) * (np.float64(one[k]) * SCALE)
    if index_of_one >= 0 and index_of_two >= 0:
        for k in range(one.shape[0]):
            total += np.float64(remainders_of_one[index_of_one, k]) * np.float64(remainders_of_two[index_of_two, k])
    return total


@compiled
def exact_similarity(queries: Side, query: int, items: Side, item: int) -> float:
    """The exact similarity of a query to an item, up to the length of the query, which all its items share."""
    return items.inverse_norms[item] * integer_product(
        queries.float32[query],
        items.float32[item],
        queries.remainder_index[query],
        items.remainder_index[item],
        queries.remainders,
        items.remainders,
    )
