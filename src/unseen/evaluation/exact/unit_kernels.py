"""Compiled loops that round embeddings to directions.

To be imported where they are used, not at the top of a module: loading the compiler takes a second.
"""

import numpy as np
from numpy.typing import NDArray

from unseen.evaluation.exact.compiled import compiled, compiled_in_any_order


@compiled
def round_to_units(
    rows: NDArray[np.float64], single: NDArray[np.float32], norms: NDArray[np.float64], scale: float
) -> float:
    """Unit vectors times the scale in whole numbers, in place, to the bit as `directions` makes them with torch.

    Writes them in float32 too, and their lengths; gives the largest coordinate.
    """
    width = rows.shape[1]
    terms = np.empty(width)
    largest_whole = 0.0
    for number in range(rows.shape[0]):
        row = rows[number]
        for place in range(width):
            terms[place] = abs(row[place])
        count = width
        while count > 1:
            half = (count + 1) // 2
            for place in range(count - half):
                terms[place] = terms[place] if terms[place] > terms[place + half] else terms[place + half]
            count = half
        largest = terms[0] if terms[0] > 0 else 1.0
        for place in range(width):
            row[place] /= largest
            terms[place] = row[place] * row[place]
        count = width
        while count > 1:
            half = (count + 1) // 2
            for place in range(count - half):
                terms[place] += terms[place + half]
            count = half
        norm = np.sqrt(terms[0]) if terms[0] > 0 else 1.0
        for place in range(width):
            whole = np.rint(row[place] / norm * scale) + 0.0
            row[place] = whole
            single[number, place] = np.float32(whole / scale)
        norms[number] = np.sqrt(_square(row))
        # The largest coordinate has become 1 before it was divided by the norm.
        largest_whole = max(largest_whole, np.rint(1.0 / norm * scale) if terms[0] > 0 else 0.0)
    return largest_whole


@compiled_in_any_order
def _square(whole: NDArray[np.float64]) -> float:
    """The squared length of a row of whole numbers: below 2^53, so every part of the sum is exact."""
    total = 0.0
    for place in range(whole.shape[0]):
        total += whole[place] * whole[place]
    return total
