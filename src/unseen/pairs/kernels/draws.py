"""Compiled loops of random miners: weights of negatives by distance, and columns drawn by weight."""

import numpy as np

from unseen.core.compiled import compiled
from unseen.pairs.kernels.arrays import Bytes, Float32s, Float64s, Integers

LEAST_SINE = np.float32(4e-8)
LEAST_LOGARITHM = np.float32(-80)


@compiled
def draw_columns(weights: Float32s | Bytes, numbers: Float64s, columns: Integers) -> None:
    """For each row and number the column where the cumulative weight exceeds number x total; none: their number."""
    width = weights.shape[1]
    for i in range(weights.shape[0]):
        total = 0.0
        for j in range(width):
            total += weights[i, j]
        for k in range(numbers.shape[1]):
            target, running, column = numbers[i, k] * total, 0.0, width
            for j in range(width):
                running += weights[i, j]
                if running > target:
                    column = j
                    break
            columns[i, k] = column


@compiled
def list_triplets(positive: Integers, negative: Integers, missing: int, triplets: Integers) -> int:
    """The triplets of all anchors that have both columns, one below the other (3 x n k), and how many there are."""
    count = 0
    for i in range(positive.shape[0]):
        for k in range(positive.shape[1]):
            if positive[i, k] < missing and negative[i, k] < missing:
                triplets[0, count] = i
                triplets[1, count] = positive[i, k]
                triplets[2, count] = negative[i, k]
                count += 1
    return count


@compiled
def density_factors(similarity: Float32s, highest: np.float32, factors: Float32s) -> None:
    """1 - s^2 and 1 - s of similarities that count as at most the highest (2 x n x m)."""
    one = np.float32(1)
    for i in range(similarity.shape[0]):
        for j in range(similarity.shape[1]):
            s = min(similarity[i, j], highest)
            factors[0, i, j] = max(one - s * s, LEAST_SINE)
            factors[1, i, j] = one - s


@compiled
def log_weights(
    logarithms: Float32s, power: np.float32, same: Bytes, similarity: Float32s, lowest: np.float32, is_fallback: Bytes
) -> None:
    """Logs of the sampling weights in place of the first logarithms; the largest of a row is 0, all are at least -80.

    Pairs of one class and below the lowest similarity are left out; a row without others is a fallback.
    """
    half, width = np.float32(0.5), similarity.shape[1]
    for i in range(similarity.shape[0]):
        largest = np.float32(-np.inf)
        for j in range(width):
            logarithm = logarithms[0, i, j] * power - half * logarithms[1, i, j]
            if same[i, j] or similarity[i, j] < lowest:
                logarithm = np.float32(-np.inf)
            logarithms[0, i, j] = logarithm
            largest = max(largest, logarithm)
        is_fallback[i] = largest == -np.inf
        for j in range(width):
            logarithms[0, i, j] = max(logarithms[0, i, j] - largest, LEAST_LOGARITHM)


@compiled
def clear_excluded(
    weights: Float32s, same: Bytes, similarity: Float32s, lowest: np.float32, is_fallback: Bytes
) -> None:
    """Weight 0 for the pairs that are left out; a fallback weighs all pairs of two classes the same."""
    zero, one = np.float32(0), np.float32(1)
    for i in range(weights.shape[0]):
        if is_fallback[i]:
            for j in range(weights.shape[1]):
                weights[i, j] = one - np.float32(same[i, j])
        else:
            for j in range(weights.shape[1]):
                weights[i, j] = zero if same[i, j] or similarity[i, j] < lowest else weights[i, j]
