"""Compiled loops over a tile of float32 similarities: screened in float32, decided in whole numbers.

To be imported where they are used, not at the top of a module: loading the compiler takes a second.
"""

import numpy as np
from numpy.typing import NDArray

from unseen.evaluation.exact.compiled import compiled
from unseen.evaluation.exact.exact_products import exact_similarity
from unseen.evaluation.exact.thresholds import LEAST, Counts, Side, Thresholds

# Entries that are screened together: in a row, and in a block of rows and columns.
_TOGETHER = 256
_ROWS_TOGETHER = 64
_COLUMNS_TOGETHER = 256


@compiled
def compare_with_positives(
    asked: Side,
    items: Side,
    firsts: NDArray[np.int64],
    ends: NDArray[np.int64],
    own: NDArray[np.int64],
    asked_groups: NDArray[np.int64],
    item_groups: NDArray[np.int64],
    starts: NDArray[np.int64],
    found: NDArray[np.float64],
    counts: NDArray[np.int64],
) -> None:
    """Write the exact similarities of each query to its positives, ascending, from its place in ``starts`` on.

    A query's positives are the items from ``firsts`` to ``ends`` but for its ``own`` place and those of its group.
    Groups are empty where there are none. ``counts`` says how many were found.
    """
    for query in range(firsts.shape[0]):
        filled = starts[query]
        for item in range(firsts[query], ends[query]):
            if item == own[query] or (item_groups.shape[0] > 0 and item_groups[item] == asked_groups[query]):
                continue
            found[filled] = exact_similarity(asked, query, items, item)
            filled += 1
        found[starts[query] : filled].sort()
        counts[query] = filled - starts[query]


@compiled
def count_rows(
    tile: NDArray[np.float32], rows: Side, columns: Side, thresholds: Thresholds, counts: Counts, limit: int
) -> int:
    """Count the similarities of a tile against the thresholds of its rows.

    Gives the number of exact decisions, and stops as soon as there are more than ``limit``.
    """
    starts, exact, above, tied = thresholds.starts, thresholds.exact, counts.above, counts.tied
    lows, highs, low_bits = thresholds.low, thresholds.high, thresholds.bits
    bits = tile.view(np.int32)
    decided = 0
    for row in range(tile.shape[0]):
        first, end = starts[row], starts[row + 1]
        if first == end:
            continue
        for start in range(0, tile.shape[1], _TOGETHER):
            entries = tile[row, start : start + _TOGETHER]
            entry_bits = bits[row, start : start + _TOGETHER]
            largest = LEAST
            for place in range(entry_bits.shape[0]):
                largest = max(largest, entry_bits[place])
            for slot in range(first, end):
                # The largest entry is below this threshold, so all are, and all further thresholds are higher.
                if largest <= low_bits[slot]:
                    break
                low, high = lows[slot], highs[slot]
                over_low, over_high = np.int32(0), np.int32(0)
                for place in range(entries.shape[0]):
                    over_low = np.int32(over_low + np.int32(entries[place] > low))
                    over_high = np.int32(over_high + np.int32(entries[place] > high))
                above[slot] += over_high
                if over_low == over_high:
                    continue
                for place in range(entries.shape[0]):
                    if entries[place] > low and entries[place] <= high:
                        decided += 1
                        column = start + place
                        similarity = exact_similarity(rows, row, columns, column)
                        above[slot] += similarity > exact[slot]
                        tied[slot] += similarity == exact[slot]
        if decided > limit:
            break
    return decided


@compiled
def count_columns(
    tile: NDArray[np.float32], rows: Side, columns: Side, thresholds: Thresholds, counts: Counts, limit: int
) -> int:
    """Count the similarities of a tile against the thresholds of its columns, as `count_rows` does."""
    starts, exact, above, tied = thresholds.starts, thresholds.exact, counts.above, counts.tied
    lows, highs = thresholds.low, thresholds.high
    decided = 0
    height, width = tile.shape
    for left in range(0, width, _COLUMNS_TOGETHER):
        right = min(left + _COLUMNS_TOGETHER, width)
        most = np.int64(0)
        for query in range(left, right):
            most = max(most, starts[query + 1] - starts[query])
        # One row for each threshold of the columns, so that neighbouring columns are compared together.
        low = np.full((most, right - left), np.float32(4.0))
        high = low.copy()
        for column in range(left, right):
            first, end = starts[column], starts[column + 1]
            for slot in range(first, end):
                low[slot - first, column - left] = lows[slot]
                high[slot - first, column - left] = highs[slot]
        over_low = np.zeros((most, right - left), dtype=np.int32)
        over_high = np.zeros((most, right - left), dtype=np.int32)
        for top in range(0, height, _ROWS_TOGETHER):
            bottom = min(top + _ROWS_TOGETHER, height)
            over_low[:] = 0
            over_high[:] = 0
            # Eight rows at once: each count is then loaded and stored once for eight comparisons.
            for row in range(top, bottom - 7, 8):
                one, two = tile[row, left:right], tile[row + 1, left:right]
                three, four = tile[row + 2, left:right], tile[row + 3, left:right]
                five, six = tile[row + 4, left:right], tile[row + 5, left:right]
                seven, eight = tile[row + 6, left:right], tile[row + 7, left:right]
                for slot in range(most):
                    lower, higher, sum_low, sum_high = low[slot], high[slot], over_low[slot], over_high[slot]
                    for place in range(right - left):
                        limit_low, limit_high = lower[place], higher[place]
                        sum_low[place] += (
                            np.int32(one[place] > limit_low)
                            + np.int32(two[place] > limit_low)
                            + np.int32(three[place] > limit_low)
                            + np.int32(four[place] > limit_low)
                            + np.int32(five[place] > limit_low)
                            + np.int32(six[place] > limit_low)
                            + np.int32(seven[place] > limit_low)
                            + np.int32(eight[place] > limit_low)
                        )
                        sum_high[place] += (
                            np.int32(one[place] > limit_high)
                            + np.int32(two[place] > limit_high)
                            + np.int32(three[place] > limit_high)
                            + np.int32(four[place] > limit_high)
                            + np.int32(five[place] > limit_high)
                            + np.int32(six[place] > limit_high)
                            + np.int32(seven[place] > limit_high)
                            + np.int32(eight[place] > limit_high)
                        )
            for row in range(bottom - (bottom - top) % 8, bottom):
                one = tile[row, left:right]
                for slot in range(most):
                    for place in range(right - left):
                        over_low[slot, place] += one[place] > low[slot, place]
                        over_high[slot, place] += one[place] > high[slot, place]
            for column in range(left, right):
                first = starts[column]
                for slot in range(first, starts[column + 1]):
                    counted = over_high[slot - first, column - left]
                    above[slot] += counted
                    if over_low[slot - first, column - left] == counted:
                        continue
                    for row in range(top, bottom):
                        if tile[row, column] > lows[slot] and tile[row, column] <= highs[slot]:
                            decided += 1
                            similarity = exact_similarity(columns, column, rows, row)
                            above[slot] += similarity > exact[slot]
                            tied[slot] += similarity == exact[slot]
            if decided > limit:
                return decided
    return decided


@compiled
def collect_largest(
    tile: NDArray[np.float32],
    first: tuple[int, int],
    kept: tuple[NDArray[np.float32], NDArray[np.int32], NDArray[np.float32], NDArray[np.int32]],
    k: int,
    margin: float,
    part: tuple[int, int],
) -> int:
    """Keep the entries of some rows that can be among the k largest: those above the row's floor.

    ``kept`` holds for each query the values, their places in the gallery, the floor and how many are filled; -1 stands
    for a query with more such entries than there is room for. ``first`` are the numbers of the first row and column.
    """
    values, places, floors, filled = kept
    room = values.shape[1]
    for row in range(part[0], part[1]):
        query = first[0] + row
        if filled[query] < 0:
            continue
        for start in range(0, tile.shape[1], _TOGETHER):
            entries = tile[row, start : start + _TOGETHER]
            floor = floors[query]
            if floor > 0:
                over = np.int32(0)
                for place in range(entries.shape[0]):
                    over = np.int32(over + np.int32(entries[place] > floor))
                if over == 0:
                    continue
            for place in range(entries.shape[0]):
                if entries[place] <= floor:
                    continue
                values[query, filled[query]] = entries[place]
                places[query, filled[query]] = first[1] + start + place
                filled[query] += 1
                if filled[query] == room:
                    ordered = np.sort(values[query])
                    floor = np.float32(ordered[room - k] - margin)
                    count = 0
                    for slot in range(room):
                        if values[query, slot] >= floor:
                            values[query, count] = values[query, slot]
                            places[query, count] = places[query, slot]
                            count += 1
                    floors[query] = floor
                    filled[query] = count if count < room else -1
                    if count == room:
                        break
            if filled[query] < 0:
                break
    return 0
