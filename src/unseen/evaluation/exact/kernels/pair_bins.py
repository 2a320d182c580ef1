"""Compiled loops that count the pairs of a tile of similarities in bins."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unseen.evaluation.exact.arrays import Float32s, Integers
from unseen.evaluation.exact.kernels import compiled

Bins = NDArray[np.uint32]


class PairTile(NamedTuple):
    """Float32 similarities of some rows to others, their row numbers, the classes of all rows.

    A tile on the diagonal compares rows with themselves: each of its pairs counts once.
    """

    similarity: Float32s
    rows: Integers
    columns: Integers
    classes: Integers
    is_diagonal: bool


@compiled
def count_all(tile: PairTile, counts: Bins) -> None:
    """Count all pairs of a tile."""
    one = np.uint32(1)
    similarity, is_diagonal = tile.similarity, tile.is_diagonal
    for i in range(similarity.shape[0]):
        for j in range(i + 1 if is_diagonal else 0, similarity.shape[1]):
            # Similarities of unit vectors exceed 1 by less than half a bin.
            counts[np.uint32(similarity[i, j] * 32768.0 + 32768.5)] += one


@compiled
def move_positives(tile: PairTile, by_class: Integers, positives: Bins, negatives: Bins) -> None:
    """Move the few pairs of one class from the negatives to the positives, and drop pairs of a row with itself.

    ``by_class`` lists the columns sorted by class.
    """
    one = np.uint32(1)
    sorted_classes = tile.classes[tile.columns[by_class]]
    for i in range(tile.similarity.shape[0]):
        own = tile.classes[tile.rows[i]]
        for k in range(np.searchsorted(sorted_classes, own), len(sorted_classes)):
            j = by_class[k]
            if sorted_classes[k] != own:
                break
            if tile.is_diagonal and j <= i:
                continue
            bin_number = np.uint32(tile.similarity[i, j] * 32768.0 + 32768.5)
            negatives[bin_number] -= one
            if tile.columns[j] != tile.rows[i]:
                positives[bin_number] += one


@compiled
def remove_same_group(tile: PairTile, groups: Integers, by_group: Integers, positives: Bins, negatives: Bins) -> None:
    """Drop the pairs whose two rows lie in one group; ``by_group`` lists the columns sorted by group."""
    one = np.uint32(1)
    sorted_groups = groups[tile.columns[by_group]]
    for i in range(tile.similarity.shape[0]):
        own = groups[tile.rows[i]]
        for k in range(np.searchsorted(sorted_groups, own), len(sorted_groups)):
            j = by_group[k]
            if sorted_groups[k] != own:
                break
            if tile.columns[j] == tile.rows[i] or (tile.is_diagonal and j <= i):
                continue
            bin_number = np.uint32(tile.similarity[i, j] * 32768.0 + 32768.5)
            if tile.classes[tile.columns[j]] == tile.classes[tile.rows[i]]:
                positives[bin_number] -= one
            else:
                negatives[bin_number] -= one
