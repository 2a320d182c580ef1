"""Compiled loops over labels: masks of pairs and their counts."""

import numpy as np

from unseen.core.machine.compiled import compiled
from unseen.pairs.kernels.arrays import Bytes, Integers


@compiled
def compare_labels(labels: Integers, ref_labels: Integers, is_self: bool, masks: Bytes, counts: Integers) -> None:
    """Masks of equal labels, of positives and of negatives (3 x n x m), and counts of the last two (2 x n)."""
    same, positive, negative = masks[0], masks[1], masks[2]
    columns = len(ref_labels)
    for i in range(len(labels)):
        own, count = labels[i], 0
        for j in range(columns):
            is_same = np.uint8(ref_labels[j] == own)
            same[i, j] = is_same
            positive[i, j] = is_same
            negative[i, j] = np.uint8(1) - is_same
            count += int(is_same)
        if is_self:
            positive[i, i] = 0
        counts[0, i] = count - is_self
        counts[1, i] = columns - count
