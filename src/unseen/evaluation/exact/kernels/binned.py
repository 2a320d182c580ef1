"""Compiled counting loops over a tile of float32 similarities, for queries with many positives: a table of bins."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unseen.evaluation.exact.arrays import Float32s, Int32s
from unseen.evaluation.exact.kernels import compiled
from unseen.evaluation.exact.kernels.products import exact_similarity
from unseen.evaluation.exact.thresholds import Counts, Side, Thresholds

# Bins between the lowest and the highest threshold of a query.
_BINS = 1024
# Bins that are written at a time.
_FILL = 32
# Columns that are transposed at a time: one cache line.
_STRIP = 16


class _Buffers(NamedTuple):
    """What `_count_by_bins` writes into: a bin per item, thresholds exceeded per bin, counts, and undecided items."""

    bins: Int32s
    exceeded: NDArray[np.uint16]
    apart: Int32s
    undecided: NDArray[np.uint32]


@compiled
def count_rows_by_bins(
    tile: Float32s, rows: Side, columns: Side, thresholds: Thresholds, counts: Counts, limit: int
) -> int:
    """`count_rows` for rows with many thresholds: a table of bins finds the place of a similarity among them."""
    buffers = _buffers_for(thresholds, tile.shape[1])
    decided = 0
    for row in range(tile.shape[0]):
        decided += _count_by_bins(tile[row], row, (rows, columns), thresholds, counts, buffers)
        if decided > limit:
            break
    return decided


@compiled
def count_columns_by_bins(
    tile: Float32s, rows: Side, columns: Side, thresholds: Thresholds, counts: Counts, limit: int
) -> int:
    """`count_columns` for columns with many thresholds."""
    height, width = tile.shape
    buffers = _buffers_for(thresholds, height)
    # Rows of an odd length: rows of 4096 bytes would all compete for the same cache lines.
    strip = np.empty((_STRIP, height + 17), dtype=np.float32)
    decided = 0
    for left in range(0, width, _STRIP):
        right = min(left + _STRIP, width)
        for row in range(height):
            for column in range(left, right):
                strip[column - left, row] = tile[row, column]
        for column in range(left, right):
            entries = strip[column - left, :height]
            decided += _count_by_bins(entries, column, (columns, rows), thresholds, counts, buffers)
        if decided > limit:
            break
    return decided


@compiled
def _buffers_for(thresholds: Thresholds, items: int) -> _Buffers:
    most = 0
    for query in range(thresholds.starts.shape[0] - 1):
        most = max(most, thresholds.starts[query + 1] - thresholds.starts[query])
    return _Buffers(
        np.zeros(items, dtype=np.int32),
        np.zeros(_BINS + 3 + _FILL, dtype=np.uint16),
        np.zeros((4, most + 2), dtype=np.int32),
        np.zeros(items, dtype=np.uint32),
    )


@compiled
def _count_by_bins(
    entries: Float32s, query: int, sides: tuple[Side, Side], thresholds: Thresholds, counts: Counts, buffers: _Buffers
) -> int:
    """Count the similarities of one query; returns the number of exact decisions.

    The range of the query's thresholds is cut into bins. Rounding preserves order, so a similarity whose bin lies above
    the bin of ``high`` is above ``high``; one that shares a bin with either bound is compared directly.
    """
    bins, exceeded, apart, undecided = buffers.bins, buffers.exceeded, buffers.apart, buffers.undecided
    above, tied = counts.above, counts.tied
    first, end = thresholds.starts[query], thresholds.starts[query + 1]
    if first == end:
        return 0
    lows, highs, exact = thresholds.low[first:end], thresholds.high[first:end], thresholds.exact[first:end]
    size, beyond = end - first, apart.shape[1] - 1
    base = lows[0]
    scale = np.float32(np.float32(_BINS) / np.float32(highs[size - 1] - base))
    nothing, one, last = np.float32(0), np.float32(1), np.float32(_BINS + 2)
    for entry in range(entries.shape[0]):
        position = np.float32(np.float32(np.float32(entries[entry] - base) * scale) + one)
        position = position if position > nothing else nothing
        bins[entry] = np.int32(position if position < last else last)
    # How many thresholds each bin exceeds; where that is uncertain, `beyond` plus the number it certainly exceeds.
    filled = 0
    for slot in range(size):
        lower = min(int(np.float32(np.float32(lows[slot] - base) * scale) + one), _BINS + 2)
        upper = min(int(np.float32(np.float32(highs[slot] - base) * scale) + one), _BINS + 2)
        # Writes a few too many, which the next threshold overwrites.
        for start in range(filled, lower, _FILL):
            for entry in range(start, start + _FILL):
                exceeded[entry] = slot
        for entry in range(max(filled, lower), upper + 1):
            exceeded[entry] = beyond + slot
        filled = max(filled, upper + 1)
    for entry in range(filled, _BINS + 3):
        exceeded[entry] = size
    # Unsigned indices: numba checks at each use whether a signed one counts from the end.
    undecided_count = np.uint32(0)
    for entry in range(entries.shape[0]):
        number = np.uint32(exceeded[np.uint32(bins[entry])])
        undecided[undecided_count] = entry
        undecided_count = np.uint32(undecided_count + np.uint32(number >= beyond))
        # Neighbours often fall into the same slot; four separate counters avoid waiting for the previous store.
        apart[np.uint32(entry) & np.uint32(3), min(number, np.uint32(beyond))] += 1
    decided = 0
    for order in range(undecided_count):
        entry = undecided[order]
        value = entries[entry]
        slot = np.int64(exceeded[np.uint32(bins[entry])]) - beyond
        while slot < size and value > highs[slot]:
            slot += 1
        apart[0, slot] += 1
        if slot == size or value <= lows[slot]:
            continue
        decided += 1
        similarity = exact_similarity(sides[0], query, sides[1], entry)
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
