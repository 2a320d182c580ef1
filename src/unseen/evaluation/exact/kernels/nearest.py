"""Compiled loops of Lloyd's iterations: the two best centroids of each point, what they decide, and sums of members."""

import numpy as np

from unseen.evaluation.exact.arrays import Booleans, Float32s, Floats, Int8s, Int32s, Integers
from unseen.evaluation.exact.directions import SCALE
from unseen.evaluation.exact.kernels import compiled
from unseen.evaluation.exact.kernels.centroids import Centroids, Nearest, TwoBest
from unseen.evaluation.exact.kernels.rounding import squared_length


@compiled
def two_best(brackets: Float32s, half_squares: Float32s, numbers: Integers, best: TwoBest) -> None:
    """Update the two best centroids of some points with products of these points and the centroids ``numbers``.

    ``brackets`` are overwritten.
    """
    for point in range(brackets.shape[0]):
        row = brackets[point]
        largest = _subtract(row, half_squares)
        first = 0
        while row[first] != largest:
            first += 1
        row[first] = -np.inf
        value = best.value[point]
        best.second[point] = max(best.second[point], _largest(row), min(value, largest))
        if largest > value:
            best.value[point] = largest
            best.winner[point] = numbers[first]


@compiled
def _subtract(row: Float32s, half_squares: Float32s) -> np.float32:
    """Subtract in place; returns the largest difference."""
    largest = np.float32(-np.inf)
    for k in range(row.shape[0]):
        bracket = row[k] - half_squares[k]
        row[k] = bracket
        largest = bracket if bracket > largest else largest
    return largest


@compiled
def _largest(row: Float32s) -> np.float32:
    largest = np.float32(-np.inf)
    for k in range(row.shape[0]):
        largest = row[k] if row[k] > largest else largest
    return largest


@compiled
def settle(best: TwoBest, nearest: Nearest, is_moved: Booleans, margin: np.float32, is_doubtful: Booleans) -> None:
    """What `lloyd._settle` does, in one pass."""
    for point in range(best.value.shape[0]):
        value, rival, found = nearest.value[point], nearest.rival[point], best.value[point]
        own_moved = is_moved[nearest.own[point]]
        unmoved = rival if own_moved else value
        others = max(best.second[point], unmoved)
        is_doubtful[point] = False
        if not own_moved and value - found > margin:
            nearest.rival[point] = max(rival, found)
        elif found - others > margin:
            nearest.own[point] = best.winner[point]
            nearest.value[point] = found
            nearest.rival[point] = others
        else:
            is_doubtful[point] = True


@compiled
def add_members(
    float32: Float32s, remainders: tuple[Int32s, Int8s], entered: Integers, left: Integers, sums: Floats
) -> None:
    """What `lloyd._add_members` does, in one pass."""
    integers = np.empty(float32.shape[1])
    for row in range(float32.shape[0]):
        index = remainders[0][row]
        for k in range(float32.shape[1]):
            integers[k] = np.float64(float32[row, k]) * SCALE
        if index >= 0:
            integers += remainders[1][index]
        entering = sums[entered[row]]
        entering += integers
        if left[row] >= 0:
            leaving = sums[left[row]]
            leaving -= integers


@compiled
def to_means(sums: Floats, counts: Integers, touched: Integers, centroids: Centroids) -> Booleans:
    """What `lloyd._to_means` does, in one pass."""
    moved = np.zeros(touched.shape[0], dtype=np.bool_)
    for number in range(touched.shape[0]):
        cluster = touched[number]
        row, total, count = centroids.integers[cluster], sums[cluster], counts[cluster]
        changed = False
        for k in range(row.shape[0]):
            mean = np.rint(total[k] / count) + 0.0
            changed |= mean != row[k]
            row[k] = mean
        if changed:
            for k in range(row.shape[0]):
                centroids.float32[cluster, k] = np.float32(row[k] / SCALE)
            square = squared_length(row)
            centroids.squares[cluster] = np.int64(square)
            centroids.half_squares[cluster] = np.float32(square / (2 * SCALE**2))
            moved[number] = True
    return moved
