"""Compiled loops of the SNR loss: rows centred on the mean of their coordinates, and ratios of noise to signal."""

import math

import numpy as np

from unseen.core.machine.compiled import compiled, compiled_for_numbers
from unseen.pairs.kernels.arrays import Bytes, Float32s, Integers

ZERO, HALF, ONE = np.float32(0), np.float32(0.5), np.float32(1)
LARGEST, MEAN, LENGTH, INVERSE, WHOLE, LEAN, LOG_SPREAD = range(7)
"""Rows of the numbers that `centre_rows` keeps for the gradient."""


@compiled_for_numbers
def centre_rows(rows: Float32s, limits: Float32s, directions: Float32s, kept: Float32s, is_varied: Bytes) -> None:
    """Unit vectors of the centred rows, seven numbers of each row (7 x n), and whether it varies.

    `limits`: the largest coordinate that counts as 0, also relative to the row, and the log spread of a flat row.
    """
    shortest, flattest, no_spread = limits[0], limits[1], limits[2]
    size = np.float32(rows.shape[1])
    root = np.sqrt(size)
    for i in range(rows.shape[0]):
        row, direction = rows[i], directions[i]
        largest = shortest
        for j in range(len(row)):
            largest = max(largest, abs(row[j]))
        total = ZERO
        for j in range(len(row)):
            direction[j] = row[j] / largest
            total += direction[j]
        mean = total / size
        square = ZERO
        for j in range(len(row)):
            direction[j] -= mean
            square += direction[j] * direction[j]
        reach = ZERO
        for j in range(len(row)):
            reach = max(reach, abs(direction[j]))
        length = np.sqrt(square)
        is_flat = reach * largest < shortest or reach < flattest
        inverse = ZERO if is_flat else ONE / length
        for j in range(len(row)):
            direction[j] *= inverse
        whole = max(np.sqrt(square + mean * root * mean * root), HALF)
        kept[LARGEST, i], kept[MEAN, i], kept[LENGTH, i], kept[INVERSE, i] = largest, mean, length, inverse
        kept[WHOLE, i], kept[LEAN, i] = whole, mean * size / whole
        kept[LOG_SPREAD, i] = no_spread if is_flat else np.log(length) + np.log(largest)
        is_varied[i] = not is_flat


@compiled_for_numbers
def centred_gradient(
    to_direction: Float32s, to_numbers: Float32s, directions: Float32s, kept: Float32s, gradients: Float32s
) -> None:
    """The gradient of the rows from those of their directions, of log spreads and of coordinate sums (2 x n)."""
    for i in range(directions.shape[0]):
        upstream, direction, gradient = to_direction[i], directions[i], gradients[i]
        mean, length, inverse = kept[MEAN, i], kept[LENGTH, i], kept[INVERSE, i]
        pressure, tilt = to_numbers[1, i] / kept[WHOLE, i], kept[LEAN, i] / kept[WHOLE, i]
        along = -to_numbers[0, i]
        for j in range(len(gradient)):
            along += upstream[j] * direction[j]
        share, total = along * inverse + pressure * tilt * length, ZERO
        for j in range(len(gradient)):
            gradient[j] = upstream[j] * inverse - direction[j] * share
            total += gradient[j]
        lift, scale = pressure * (ONE - tilt * mean) - total / np.float32(len(gradient)), ONE / kept[LARGEST, i]
        for j in range(len(gradient)):
            gradient[j] = (gradient[j] + lift) * scale


@compiled
def hinge_ratios(
    correlation: Float32s, triplets: Integers, spreads: Float32s, margin: float, limit: float, slope: Float32s
) -> tuple[float, int, int]:
    """Sum of [v_ap - v_an + margin]_+ over triplets whose anchor varies, how many they are, and how many exceed 0.

    v = 1 + r (r - 2 c) with the correlation c and the ratio r of two spreads, whose logs differ by at most the limit.
    `spreads`, 4 x n: log spreads, 1 for rows that vary, then the slopes of the log spreads, and 1 for used anchors.
    """
    total, num_used, num_active = 0.0, 0, 0
    for t in range(triplets.shape[1]):
        anchor = triplets[0, t]
        if spreads[1, anchor] == 0:
            continue
        spreads[3, anchor] = ONE
        num_used += 1
        hinge, sign = margin, 1.0
        for side in range(1, 3):
            other = triplets[side, t]
            ratio = math.exp(min(spreads[0, other] - spreads[0, anchor], limit))
            hinge += sign * ratio * (ratio - 2.0 * correlation[anchor, other])
            sign = -sign
        if hinge <= 0:
            continue
        num_active += 1
        total += hinge
        for side in range(1, 3):
            other, difference = triplets[side, t], spreads[0, triplets[side, t]] - spreads[0, anchor]
            ratio = math.exp(min(difference, limit))
            slope[anchor, other] -= np.float32(sign * 2.0 * ratio)
            if difference <= limit:
                steep = np.float32(sign * 2.0 * ratio * (ratio - correlation[anchor, other]))
                spreads[2, other] += steep
                spreads[2, anchor] -= steep
            sign = -sign
    return total, num_used, num_active
