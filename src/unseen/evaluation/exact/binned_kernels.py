"""Compiled loops over a tile of float32 similarities for queries with many positives: bins say where to look.

To be imported where they are used, not at the top of a module: loading the compiler takes a second.
"""

import numpy as np
from numpy.typing import NDArray

from unseen.evaluation.exact.compiled import compiled
from unseen.evaluation.exact.exact_products import exact_similarity
from unseen.evaluation.exact.thresholds import Counts, Side, Thresholds

# Bins between the lowest and the highest threshold of a query.
_BINS = 1024
# Bins that are written together.
_FILL = 32
# Columns that are turned into rows together: a line of the processor's cache.
_STRIP = 16


@compiled
def count_rows_by_bins(
    tile: NDArray[np.float32], rows: Side, columns: Side, thresholds: Thresholds, counts: Counts, limit: int
) -> int:
    """Count as `count_rows` does, for rows with many thresholds: a table says where to look among them."""
    memory = _memory_for(thresholds, tile.shape[1])
    decided = 0
    for row in range(tile.shape[0]):
        decided += _count_by_bins(tile[row], row, rows, columns, thresholds, counts, memory)
        if decided > limit:
            break
    return decided


@compiled
def count_columns_by_bins(
    tile: NDArray[np.float32], rows: Side, columns: Side, thresholds: Thresholds, counts: Counts, limit: int
) -> int:
    """Count as `count_columns` does, for columns with many thresholds."""
    height, width = tile.shape
    memory = _memory_for(thresholds, height)
    # Rows of an odd length: those of 4096 bytes would all meet in one place of the cache.
    strip = np.empty((_STRIP, height + 17), dtype=np.float32)
    decided = 0
    for left in range(0, width, _STRIP):
        right = min(left + _STRIP, width)
        for row in range(height):
            for column in range(left, right):
                strip[column - left, row] = tile[row, column]
        for column in range(left, right):
            decided += _count_by_bins(strip[column - left, :height], column, columns, rows, thresholds, counts, memory)
        if decided > limit:
            break
    return decided


@compiled
def _memory_for(
    thresholds: Thresholds, items: int
) -> tuple[NDArray[np.int32], NDArray[np.uint16], NDArray[np.int32], NDArray[np.uint32]]:
    """What `_count_by_bins` writes into: the bin of each item, what a bin exceeds, counts, and items to look at."""
    most = 0
    for query in range(thresholds.starts.shape[0] - 1):
        most = max(most, thresholds.starts[query + 1] - thresholds.starts[query])
    return (
        np.zeros(items, dtype=np.int32),
        np.zeros(_BINS + 3 + _FILL, dtype=np.uint16),
        np.zeros((4, most + 2), dtype=np.int32),
        np.zeros(items, dtype=np.uint32),
    )


@compiled
def _count_by_bins(
    entries: NDArray[np.float32],
    query: int,
    asked: Side,
    items: Side,
    thresholds: Thresholds,
    counts: Counts,
    memory: tuple[NDArray[np.int32], NDArray[np.uint16], NDArray[np.int32], NDArray[np.uint32]],
) -> int:
    """Count the similarities of one query; gives the number of exact decisions.

    The range of the query's thresholds is cut into bins. Rounding keeps order, so a similarity whose bin lies above
    that of ``high`` is above ``high``; one that shares a bin with any of the two bounds is looked at.
    """
    bins, exceeded, apart, unsure = memory
    above, tied = counts.above, counts.tied
    first, end = thresholds.starts[query], thresholds.starts[query + 1]
    if first == end:
        return 0
    lows, highs, exact = thresholds.low[first:end], thresholds.high[first:end], thresholds.exact[first:end]
    size, beyond = end - first, apart.shape[1] - 1
    base = lows[0]
    scale = np.float32(np.float32(_BINS) / np.float32(highs[size - 1] - base))
    nothing, one, last = np.float32(0), np.float32(1), np.float32(_BINS + 2)
    for place in range(entries.shape[0]):
        position = np.float32(np.float32(np.float32(entries[place] - base) * scale) + one)
        position = position if position > nothing else nothing
        bins[place] = np.int32(position if position < last else last)
    # How many thresholds each bin exceeds; where that is unsure, how many it surely does, behind all sure numbers.
    filled = 0
    for slot in range(size):
        lower = min(int(np.float32(np.float32(lows[slot] - base) * scale) + one), _BINS + 2)
        upper = min(int(np.float32(np.float32(highs[slot] - base) * scale) + one), _BINS + 2)
        # A few too many at once, which the next threshold writes over.
        for start in range(filled, lower, _FILL):
            for place in range(start, start + _FILL):
                exceeded[place] = slot
        for place in range(max(filled, lower), upper + 1):
            exceeded[place] = beyond + slot
        filled = max(filled, upper + 1)
    for place in range(filled, _BINS + 3):
        exceeded[place] = size
    # Numbers without a sign: one with a sign is asked at each use whether it counts from the end.
    looked = np.uint32(0)
    for place in range(entries.shape[0]):
        number = np.uint32(exceeded[np.uint32(bins[place])])
        unsure[looked] = place
        looked = np.uint32(looked + np.uint32(number >= beyond))
        # Neighbours often fall between the same thresholds; counted apart, none waits for the one before.
        apart[np.uint32(place) & np.uint32(3), min(number, np.uint32(beyond))] += 1
    decided = 0
    for order in range(looked):
        place = unsure[order]
        value = entries[place]
        slot = np.int64(exceeded[np.uint32(bins[place])]) - beyond
        while slot < size and value > highs[slot]:
            slot += 1
        apart[0, slot] += 1
        if slot == size or value <= lows[slot]:
            continue
        decided += 1
        similarity = exact_similarity(asked, query, items, place)
        while slot < size and value > lows[slot]:
            above[first + slot] += similarity > exact[slot]
            tied[first + slot] += similarity == exact[slot]
            slot += 1
    higher = 0
    for slot in range(size, 0, -1):
        higher += apart[0, slot] + apart[1, slot] + apart[2, slot] + apart[3, slot]
        above[first + slot - 1] += higher
    apart[:] = 0
    return decided
