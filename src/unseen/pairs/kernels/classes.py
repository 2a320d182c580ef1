"""Compiled loops over classes: rows of a third class."""

import numpy as np

from unseen.core.machine.compiled import compiled
from unseen.pairs.kernels.arrays import Bytes, Float64s, Integers


@compiled
def third_class_rows(
    labels: Integers, ref_labels: Integers, pairs: Integers, numbers: Float64s, rows: Integers, is_found: Bytes
) -> None:
    """For each pair of a row and a column (2 x t) a row of neither class, drawn by a number in [0, 1).

    Rows are ordered by class, in the order in which classes appear; the two classes to avoid are two blocks of that.
    """
    size = len(labels)
    own, ref_own = np.empty(size, np.int64), np.empty(len(ref_labels), np.int64)
    count = np.zeros(size + 1, np.int64)
    for i in range(size):
        own[i] = i
        for j in range(i):
            if labels[j] == labels[i]:
                own[i] = j
                break
        count[own[i] + 1] += 1
    for i in range(len(ref_labels)):
        ref_own[i] = size  # a class without rows
        for j in range(size):
            if labels[j] == ref_labels[i]:
                ref_own[i] = j
                break
    start, order = np.empty(size + 1, np.int64), np.empty(size, np.int64)
    start[0] = 0
    for i in range(size):
        start[i + 1] = start[i] + count[i + 1]
    filled = start.copy()
    for i in range(size):
        order[filled[own[i]]] = i
        filled[own[i]] += 1
    for t in range(pairs.shape[1]):
        first, second = own[pairs[0, t]], ref_own[pairs[1, t]]
        low, high = min(first, second), max(first, second)
        num_low = count[low + 1]
        num_high = 0 if high in (low, size) else count[high + 1]
        num_left = size - num_low - num_high
        position = int(numbers[t] * num_left)
        if position >= start[low]:
            position += num_low
        if high < size and position >= start[high]:
            position += num_high
        rows[t] = order[position if position < size else size - 1]
        is_found[t] = num_left > 0
