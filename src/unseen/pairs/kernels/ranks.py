"""Compiled loops over ranks: columns of selected entries, soft counts of larger values."""

import numpy as np

from unseen.core.machine.compiled import compiled, compiled_for_numbers
from unseen.pairs.kernels.arrays import Bytes, Float32s, Integers
from unseen.pairs.kernels.exponentials import LOG2_E, ONE, ZERO, exp2_in_place


@compiled
def list_columns(mask: Bytes, counts: Integers, columns: Integers) -> None:
    """The columns of each row's selected entries, up to as many as there is room for; the others stay."""
    for i in range(mask.shape[0]):
        count = 0
        for j in range(mask.shape[1]):
            if mask[i, j]:
                columns[i, count] = j
                count += 1
        counts[i] = count


@compiled_for_numbers
def count_larger(
    values: Float32s, mask: Bytes, references: Float32s, temperature: np.float32, shares: Float32s, counts: Float32s
) -> None:
    """Sums over selected values of sigmoid((value - reference) / temperature), n x k, and the terms, n x k x m."""
    bits, factor = np.empty(values.shape[1], np.int32), LOG2_E / temperature
    for i in range(values.shape[0]):
        for k in range(references.shape[1]):
            row, reference, count = shares[i, k], references[i, k], ZERO
            for j in range(len(row)):
                # Never above 0, so that no power overflows and a value far below the reference counts exactly 0.
                row[j] = -abs(values[i, j] - reference) * factor
            exp2_in_place(row, bits)
            for j in range(len(row)):
                part = ONE if values[i, j] >= reference else row[j]
                row[j] = np.float32(mask[i, j]) * part / (ONE + row[j])
                count += row[j]
            counts[i, k] = count


@compiled_for_numbers
def larger_slopes(
    shares: Float32s, gradient: Float32s, temperature: np.float32, to_values: Float32s, to_references: Float32s
) -> None:
    """The gradient of the counts to the values, n x m, and to the references, n x k."""
    for i in range(shares.shape[0]):
        for j in range(shares.shape[2]):
            to_values[i, j] = ZERO
        for k in range(shares.shape[1]):
            row, scale, total = shares[i, k], gradient[i, k] / temperature, ZERO
            for j in range(len(row)):
                slope = scale * row[j] * (ONE - row[j])
                to_values[i, j] += slope
                total += slope
            to_references[i, k] = -total
