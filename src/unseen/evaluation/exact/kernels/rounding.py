"""Compiled loops that round embeddings to directions."""

import numpy as np

from unseen.evaluation.exact.arrays import Float32s, Floats
from unseen.evaluation.exact.kernels import compiled, compiled_in_any_order


@compiled
def round_to_units(rows: Floats, float32: Float32s, norms: Floats, scale: float) -> float:
    """Turn rows into unit vectors times the scale, rounded to integers, in place; returns the largest coordinate.

    Also writes them as float32, and their lengths. Bit for bit what `directions` computes with torch.
    """
    width = rows.shape[1]
    terms = np.empty(width)
    largest_integer = 0.0
    for number in range(rows.shape[0]):
        row = rows[number]
        for k in range(width):
            terms[k] = abs(row[k])
        count = width
        while count > 1:
            half = (count + 1) // 2
            for k in range(count - half):
                terms[k] = terms[k] if terms[k] > terms[k + half] else terms[k + half]
            count = half
        largest = terms[0] if terms[0] > 0 else 1.0
        for k in range(width):
            row[k] /= largest
            terms[k] = row[k] * row[k]
        count = width
        while count > 1:
            half = (count + 1) // 2
            for k in range(count - half):
                terms[k] += terms[k + half]
            count = half
        norm = np.sqrt(terms[0]) if terms[0] > 0 else 1.0
        for k in range(width):
            integer = np.rint(row[k] / norm * scale) + 0.0
            row[k] = integer
            float32[number, k] = np.float32(integer / scale)
        norms[number] = np.sqrt(squared_length(row))
        # The largest coordinate became 1 before it was divided by the norm.
        largest_integer = max(largest_integer, np.rint(1.0 / norm * scale) if terms[0] > 0 else 0.0)
    return largest_integer


@compiled_in_any_order
def squared_length(integers: Floats) -> float:
    """The squared length of a row of integers: below 2^53, so every partial sum is exact."""
    total = 0.0
    for k in range(integers.shape[0]):
        total += integers[k] * integers[k]
    return total
