"""Compiled loops over vectors and their products: largest coordinates, cosines."""

import numpy as np

from unseen.core.machine.compiled import compiled, compiled_in_any_order
from unseen.pairs.kernels.arrays import Float32s, Int32s

SIGN_BIT_OFF = np.int32(0x7FFFFFFF)


@compiled
def largest_coordinates(rows: Int32s, largest: Int32s) -> tuple[int, int]:
    """Largest absolute coordinate of each row, and the rows with the smallest and the largest of these.

    All numbers are the bits of floats: those of positive floats have the order of the floats, with infinity and then
    NaN above all numbers.
    """
    lowest, highest = 0, 0
    for i in range(rows.shape[0]):
        most = np.int32(0)
        for j in range(rows.shape[1]):
            most = max(most, rows[i, j] & SIGN_BIT_OFF)
        largest[i, 0] = most
        if most < largest[lowest, 0]:
            lowest = i
        if most > largest[highest, 0]:
            highest = i
    return lowest, highest


@compiled
def divide_lengths(products: Float32s, inverse: Float32s) -> None:
    """Turn inner products of rows into cosines, in place, and keep the inverse lengths."""
    one = np.float32(1)
    size = len(inverse)
    for i in range(size):
        inverse[i] = one / np.sqrt(products[i, i])
    for i in range(size):
        own = inverse[i]
        for j in range(size):
            products[i, j] *= own * inverse[j]


@compiled_in_any_order
def cosine_weights(gradient: Float32s, similarity: Float32s, inverse: Float32s, weights: Float32s) -> None:
    """The matrix whose product with the rows is their gradient, from that of their cosines."""
    size = len(inverse)
    for i in range(size):
        for j in range(size):
            weights[i, j] = gradient[i, j] + gradient[j, i]
        along = np.float32(0)
        own = inverse[i]
        for j in range(size):
            along += weights[i, j] * similarity[i, j]
            weights[i, j] *= own * inverse[j]
        weights[i, i] -= along * own * own


@compiled
def distances_from_products(products: Float32s, epsilon: np.float32) -> None:
    """Turn inner products of rows into distances sqrt(|a - b|^2 + epsilon), in place."""
    size, zero, two = len(products), np.float32(0), np.float32(2)
    squares = np.empty(size, np.float32)
    for i in range(size):
        squares[i] = products[i, i]
    for i in range(size):
        own = squares[i]
        for j in range(size):
            products[i, j] = np.sqrt(max(own + squares[j] - two * products[i, j], zero) + epsilon)
        products[i, i] = np.sqrt(epsilon)  # which rounding would miss


@compiled_in_any_order
def distance_weights(gradient: Float32s, distances: Float32s, weights: Float32s) -> None:
    """The matrix whose product with the rows is their gradient, from that of their distances."""
    size, zero = len(distances), np.float32(0)
    for i in range(size):
        total = zero
        for j in range(size):
            weights[i, j] = -(gradient[i, j] + gradient[j, i]) / distances[i, j]
        weights[i, i] = zero
        for j in range(size):
            total -= weights[i, j]
        weights[i, i] = total
