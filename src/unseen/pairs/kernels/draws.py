"""Compiled loops of random miners: weights of negatives by distance, and columns drawn by weight."""

import numpy as np

from unseen.core.machine.compiled import compiled
from unseen.pairs.kernels.arrays import Bytes, Float32s, Float64s, Integers

LEAST_SINE = np.float32(4e-8)
LEAST_LOGARITHM = np.float32(-80)


@compiled
def draw_column(weights: Float32s | Bytes, total: float, number: float) -> int:
    """The column where the cumulative weight exceeds number x total; without one the number of columns."""
    target, running = number * total, 0.0
    for j in range(len(weights)):
        running += weights[j]
        if running > target:
            return j
    return len(weights)


@compiled
def total_of(weights: Float32s | Bytes) -> float:
    """The sum, in the order in which `draw_column` adds."""
    total = 0.0
    for j in range(len(weights)):
        total += weights[j]
    return total


@compiled
def draw_columns(weights: Float32s | Bytes, numbers: Float64s, columns: Integers) -> None:
    """One column for each row and number."""
    for i in range(weights.shape[0]):
        total = total_of(weights[i])
        for k in range(numbers.shape[1]):
            columns[i, k] = draw_column(weights[i], total, numbers[i, k])


@compiled
def draw_triplets(positive: Float32s | Bytes, negative: Float32s | Bytes, numbers: Float64s, triplets: Integers) -> int:
    """A positive and a negative for each row and number, one below the other (3 x n k); how many rows have both."""
    count, missing = 0, negative.shape[1]
    for i in range(positive.shape[0]):
        positive_total, negative_total = total_of(positive[i]), total_of(negative[i])
        for k in range(numbers.shape[2]):
            near = draw_column(positive[i], positive_total, numbers[0, i, k])
            far = draw_column(negative[i], negative_total, numbers[1, i, k])
            if near < missing and far < missing:
                triplets[0, count], triplets[1, count], triplets[2, count] = i, near, far
                count += 1
    return count


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


@compiled
def count_draws(weights: Float32s, numbers: Float64s, counts: Float32s) -> None:
    """How often each entry is drawn by numbers in [0, 1), in proportion to its weight; without weight it never is."""
    cumulative, total = np.empty(len(weights)), 0.0
    for entry in range(len(weights)):
        total += weights[entry]
        cumulative[entry] = total
    for number in numbers:
        entry = min(np.searchsorted(cumulative, number * total, side="right"), len(weights) - 1)
        if weights[entry] > 0:
            counts[entry] += np.float32(1)
