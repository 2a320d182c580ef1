"""Compiled loops over exponentials under masks, and a power of 2 that the compiler can take several of at once."""

import numpy as np

from unseen.core.machine.compiled import compiled_for_numbers
from unseen.pairs.kernels.arrays import Bytes, Float32s, Int32s

LOG2_E = np.float32(1.4426950408889634)
LOG_2 = np.float32(0.6931471805599453)
ZERO, HALF, ONE = np.float32(0), np.float32(0.5), np.float32(1)
LOWEST_EXPONENT = np.float32(-126)
OUTSIDE = np.float32(-1e30)
"""Far below every exponent that matters: its power is 0."""
# Taylor series of 2^x: up to |x| = 1/2 it is exact to the last bit of float32 but one.
C1, C2, C3, C4 = (
    np.float32(c) for c in (0.6931471805599453, 0.24022650695910072, 0.05550410866482158, 0.009618129107628477)
)
C5, C6, C7 = (np.float32(c) for c in (0.0013333558146428443, 0.00015403530393381608, 1.5252733804059841e-05))


@compiled_for_numbers
def exp2_in_place(exponents: Float32s, bits: Int32s) -> None:
    """2 to the power of numbers that are at most 127, in place; below -126 it is 0. `bits` is as long, to write on."""
    powers = bits.view(np.float32)
    for j in range(len(exponents)):
        exponent = max(exponents[j], LOWEST_EXPONENT)
        whole = np.floor(exponent + HALF)
        x = exponent - whole
        series = C4 + x * (C5 + x * (C6 + x * C7))
        is_above = np.int32(exponents[j] >= LOWEST_EXPONENT)
        bits[j] = ((np.int32(whole) + np.int32(127)) << np.int32(23)) * is_above
        exponents[j] = ONE + x * (C1 + x * (C2 + x * (C3 + x * series)))
    for j in range(len(exponents)):
        exponents[j] *= powers[j]


@compiled_for_numbers
def soft_maximum(row: Float32s, mask: Bytes, with_one: bool, bits: Int32s) -> np.float32:
    """Log of the sum of the selected powers of 2 of a row, and in place of the exponents their shares in that sum.

    `with_one` adds 1 to the sum. Without a selected entry the result is 0, and so are all shares.
    """
    top = ZERO if with_one else OUTSIDE
    for j in range(len(row)):
        number = row[j]
        row[j] = number if mask[j] else OUTSIDE
    for j in range(len(row)):
        top = max(top, row[j])
    if top <= HALF * OUTSIDE:
        row[:] = ZERO
        return ZERO
    for j in range(len(row)):
        row[j] -= top
    exp2_in_place(row, bits)
    total = ZERO
    for j in range(len(row)):
        total += row[j]
    if with_one:
        total += np.float32(np.exp(-np.float64(LOG_2) * np.float64(top)))
    inverse = ONE / total
    for j in range(len(row)):
        row[j] *= inverse
    return np.float32(np.log(total) + top * LOG_2)


@compiled_for_numbers
def soft_maxima(exponents: Float32s, masks: Bytes, with_one: bool, sums: Float32s) -> None:
    """`soft_maximum` of all rows: exponents and masks are groups x n x m, the sums groups x n."""
    bits = np.empty(exponents.shape[2], np.int32)
    for g in range(exponents.shape[0]):
        for i in range(exponents.shape[1]):
            sums[g, i] = soft_maximum(exponents[g, i], masks[g, i], with_one, bits)


@compiled_for_numbers
def set_exponents(
    values: Float32s, centers: Float32s, factors: Float32s, weights: Float32s, exponents: Float32s
) -> None:
    """Exponents of 2, groups x n x m: (value - center) x factor x weight; `weights` may be empty."""
    has_weights = weights.shape[0] > 0
    for g in range(exponents.shape[0]):
        factor = factors[g] * LOG2_E
        for i in range(exponents.shape[1]):
            center = centers[g, i]
            for j in range(exponents.shape[2]):
                exponents[g, i, j] = (values[i, j] - center) * factor
            if has_weights:
                for j in range(exponents.shape[2]):
                    exponents[g, i, j] *= weights[g, i, j]


@compiled_for_numbers
def add_slopes(
    shares: Float32s, gradient: Float32s, factors: Float32s, weights: Float32s, slope: Float32s, row_sums: Float32s
) -> None:
    """Over all groups the sum of gradient x factor x weight x share, n x m, and its sums over rows."""
    has_weights = weights.shape[0] > 0
    for i in range(slope.shape[0]):
        for j in range(slope.shape[1]):
            slope[i, j] = ZERO
        for g in range(shares.shape[0]):
            scale = gradient[g, i] * factors[g]
            if has_weights:
                for j in range(slope.shape[1]):
                    slope[i, j] += scale * shares[g, i, j] * weights[g, i, j]
            else:
                for j in range(slope.shape[1]):
                    slope[i, j] += scale * shares[g, i, j]
        total = ZERO
        for j in range(slope.shape[1]):
            total += slope[i, j]
        row_sums[i, 0] = total


@compiled_for_numbers
def soft_extreme_slopes(
    values: Float32s, weights: Float32s, means: Float32s, gradient: Float32s, factors: Float32s, slope: Float32s
) -> None:
    """Over all groups the sum of gradient x weight x (1 + factor (value - mean)), n x m; factor 0: fixed weights."""
    for i in range(slope.shape[0]):
        for j in range(slope.shape[1]):
            slope[i, j] = ZERO
        for g in range(weights.shape[0]):
            scale, factor, mean = gradient[g, i], factors[g], means[g, i]
            for j in range(slope.shape[1]):
                slope[i, j] += scale * weights[g, i, j] * (ONE + factor * (values[i, j] - mean))


@compiled_for_numbers
def weighted_row_sums(weights: Float32s, values: Float32s, sums: Float32s) -> None:
    """For each group (of groups x n x m weights) and row the weighted sum of the n x m values."""
    for g in range(weights.shape[0]):
        for i in range(weights.shape[1]):
            total = ZERO
            for j in range(weights.shape[2]):
                total += weights[g, i, j] * values[i, j]
            sums[g, i] = total


@compiled_for_numbers
def tilt_rows(values: Float32s, mask: Bytes, settings: Float32s, weights: Float32s, objectives: Float32s) -> None:
    """Softmax weights of the selected values of each row, and gamma x log of the mean of exp(value / gamma).

    `settings`: gamma, and 1 and a value if one entry more counts in each row, which gets no weight. 0 for empty rows.
    """
    gamma, with_one, extra = settings[0], settings[1] != ZERO, settings[2]
    bits, factor = np.empty(values.shape[1], np.int32), LOG2_E / gamma
    for i in range(values.shape[0]):
        count = 0
        for j in range(values.shape[1]):
            count += mask[i, j]
            weights[i, j] = (values[i, j] - extra) * factor
        log_total = soft_maximum(weights[i], mask[i], with_one, bits)
        if count == 0:
            objectives[i] = ZERO
        else:
            objectives[i] = gamma * (log_total - np.float32(np.log(count + int(with_one)))) + extra
