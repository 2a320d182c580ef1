"""Compiled loops over listed tuples: hinges on the distances of pairs, and their slopes."""

import numpy as np

from unseen.core.machine.compiled import compiled
from unseen.pairs.kernels.arrays import Bytes, Float32s, Integers

ZERO, ONE, TWO, HALF = np.float32(0), np.float32(1), np.float32(2), np.float32(0.5)
LEAST_SQUARE = np.float32(1e-8)
LEAST_DISTANCE = np.sqrt(LEAST_SQUARE)

VALUE, DISTANCE, SQUARED_DISTANCE = 0, 1, 2
"""What a number of the matrix stands for: itself, or the distance of unit vectors with this cosine."""


@compiled
def measure_and_slope(number: np.float32, kind: int) -> tuple[np.float32, np.float32]:
    """The number, distance or squared distance, and its slope."""
    if kind == VALUE:
        return number, ONE
    square = TWO - TWO * number
    if kind == SQUARED_DISTANCE:
        return max(square, ZERO), -TWO if square >= ZERO else ZERO
    distance = np.sqrt(max(square, LEAST_SQUARE))
    return distance, -ONE / distance if distance > LEAST_DISTANCE else ZERO


@compiled
def hinge_pairs(
    similarity: Float32s, triplets: Integers, bounds: Float32s, squared: bool, slope: Float32s, bound_slope: Float32s
) -> tuple[float, int, int]:
    """Sum of [d_ap - near + slack]_+ + [far - d_an + slack]_+, hinges above 0, triplets with one; see `listed_pairs`.

    `bounds` holds near, far and slack, for all triplets or one of each.
    """
    total, num_active, num_triplets = 0.0, 0, 0
    for t in range(triplets.shape[1]):
        of = t if bounds.shape[1] > 1 else 0
        row, is_active = triplets[0, t], False
        for side in range(2):
            column = triplets[1 + side, t]
            distance, steepness = measure_and_slope(similarity[row, column], DISTANCE)
            gap = distance - bounds[side, of] if side == 0 else bounds[side, of] - distance
            hinge = gap + bounds[2, of]
            if hinge > ZERO:
                is_active = True
                num_active += 1
                outer = hinge if squared else ONE
                total += HALF * hinge * hinge if squared else hinge
                sign = ONE if side == 0 else -ONE
                slope[row, column] += sign * outer * steepness
                bound_slope[side, t] = -sign * outer
            else:
                bound_slope[side, t] = ZERO
        num_triplets += is_active
    return total, num_active, num_triplets


@compiled
def compare_places(
    matrix: Float32s, places: Integers, is_counted: Bytes, margin: np.float32, kind: int, slope: Float32s
) -> tuple[float, int]:
    """Sum of [near - far + margin]_+ over places (rows and columns of near, then of far), and how many exceed 0."""
    total, num_active = 0.0, 0
    for t in range(places.shape[1]):
        near, near_slope = measure_and_slope(matrix[places[0, t], places[1, t]], kind)
        far, far_slope = measure_and_slope(matrix[places[2, t], places[3, t]], kind)
        hinge = (near - far) + margin
        if hinge > ZERO and is_counted[t]:
            num_active += 1
            total += float(hinge)
            slope[places[0, t], places[1, t]] += near_slope
            slope[places[2, t], places[3, t]] -= far_slope
    return total, num_active
