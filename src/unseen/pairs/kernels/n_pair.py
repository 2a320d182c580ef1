"""Compiled loops of N-pair and angular losses: value and slopes in one pass over the products of a batch."""

import numpy as np

from unseen.core.machine.compiled import compiled_for_numbers
from unseen.pairs.kernels.arrays import Bytes, Float32s, Integers
from unseen.pairs.kernels.exponentials import LOG2_E, soft_maximum

ZERO, ONE, TWO, FOUR = np.float32(0), np.float32(1), np.float32(2), np.float32(4)
SHORTEST_SQUARE = np.float32(1e-24)


@compiled_for_numbers
def add_n_pairs(products: Float32s, columns: Integers, negative: Bytes, is_anchor: Bytes, slope: Float32s) -> float:
    """Sum over anchors of log(1 + sum over negatives of exp(product - product with the drawn one)), and its slope."""
    size = products.shape[1]
    row, bits, total = np.empty(size, np.float32), np.empty(size, np.int32), 0.0
    for i in range(products.shape[0]):
        if not is_anchor[i]:
            continue
        own = products[i, columns[i, 0]]
        for j in range(size):
            row[j] = (products[i, j] - own) * LOG2_E
        total += float(soft_maximum(row, negative[i], True, bits))
        shares = ZERO
        for j in range(size):
            slope[i, j] += row[j]
            shares += row[j]
        slope[i, columns[i, 0]] -= shares
    return total


@compiled_for_numbers
def add_angles(
    products: Float32s, columns: Integers, negative: Bytes, is_anchor: Bytes, settings: Float32s, slope: Float32s
) -> float:
    """Sum over anchors of the angular terms, and their slope times the weight.

    `settings` are tan^2 of the angle and the weight. The cosines are the products with the lengths divided out.
    """
    size = len(products)
    inverse, cosines = np.empty(size, np.float32), np.empty((size, size), np.float32)
    to_cosines = np.zeros((size, size), np.float32)
    row, bits, total = np.empty(size, np.float32), np.empty(size, np.int32), 0.0
    steepness, weight = settings[0], settings[1]
    for i in range(size):
        inverse[i] = ONE / np.sqrt(products[i, i]) if products[i, i] >= SHORTEST_SQUARE else ZERO
    for i in range(size):
        for j in range(size):
            cosines[i, j] = products[i, j] * (inverse[i] * inverse[j])
    for i in range(size):
        if not is_anchor[i]:
            continue
        partner = columns[i, 0]
        own = TWO * (ONE + steepness) * cosines[i, partner]
        for j in range(size):
            row[j] = (FOUR * steepness * (cosines[i, j] + cosines[partner, j]) - own) * LOG2_E
        total += float(soft_maximum(row, negative[i], True, bits))
        shares, scale = ZERO, FOUR * steepness * weight
        for j in range(size):
            shares += row[j]
            row[j] *= scale
        for j in range(size):
            to_cosines[i, j] += row[j]
        for j in range(size):
            to_cosines[partner, j] += row[j]
        to_cosines[i, partner] -= TWO * (ONE + steepness) * weight * shares
    # What changes a length changes the diagonal of the products.
    along = np.zeros(size, np.float32)
    for i in range(size):
        part = ZERO
        for j in range(size):
            row[j] = to_cosines[i, j] * cosines[i, j]
            part += row[j]
            slope[i, j] += to_cosines[i, j] * (inverse[i] * inverse[j])
        for j in range(size):
            along[j] += row[j]
        along[i] += part
    for i in range(size):
        slope[i, i] -= along[i] * inverse[i] * inverse[i] / TWO
    return total


@compiled_for_numbers
def add_lengths(products: Float32s, weight: np.float32, is_squared: bool, slope: Float32s) -> float:
    """Sum of the squared lengths, or of the lengths, of the rows, and its slope times the weight."""
    total = 0.0
    for i in range(len(products)):
        square = products[i, i]
        if is_squared:
            total += float(square)
            slope[i, i] += weight
        elif square > ZERO:
            length = np.sqrt(square)
            total += float(length)
            slope[i, i] += weight / (TWO * length)
    return total
