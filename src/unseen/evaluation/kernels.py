"""Compiled loops over a tile of float32 similarities: screened in float32, decided in whole numbers.

To be imported where they are used, not at the top of a module: loading the compiler takes a second.
"""

import numpy as np
from numpy.typing import NDArray

from unseen.evaluation.compiled import compiled, compiled_in_any_order
from unseen.evaluation.counting import LEAST, Counts, Side, Thresholds
from unseen.evaluation.directions import SCALE

# Entries that are screened together: in a row, and in a block of rows and columns.
_TOGETHER = 256
_ROWS_TOGETHER = 64
_COLUMNS_TOGETHER = 256
# Bins between the lowest and the highest threshold of a query.
_BINS = 1024
# Bins that are written together.
_FILL = 32
# Columns that are turned into rows together: a line of the processor's cache.
_STRIP = 16


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
            found[filled] = items.inverse_norms[item] * whole_product(
                asked.single[query],
                items.single[item],
                asked.rest_of[query],
                items.rest_of[item],
                asked.rest,
                items.rest,
            )
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
                        similarity = columns.inverse_norms[column] * whole_product(
                            rows.single[row],
                            columns.single[column],
                            rows.rest_of[row],
                            columns.rest_of[column],
                            rows.rest,
                            columns.rest,
                        )
                        above[slot] += similarity > exact[slot]
                        tied[slot] += similarity == exact[slot]
        if decided > limit:
            break
    return decided


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
        similarity = items.inverse_norms[place] * whole_product(
            asked.single[query],
            items.single[place],
            asked.rest_of[query],
            items.rest_of[place],
            asked.rest,
            items.rest,
        )
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
                            similarity = rows.inverse_norms[row] * whole_product(
                                rows.single[row],
                                columns.single[column],
                                rows.rest_of[row],
                                columns.rest_of[column],
                                rows.rest,
                                columns.rest,
                            )
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


@compiled_in_any_order
def whole_product(
    one: NDArray[np.float32],
    two: NDArray[np.float32],
    rest_of_one: int,
    rest_of_two: int,
    rests_of_ones: NDArray[np.int8],
    rests_of_twos: NDArray[np.int8],
) -> float:
    """The inner product of two rows in whole numbers: below 2^53, so float64 holds it and every part of it exactly."""
    total = 0.0
    for place in range(one.shape[0]):
        total += np.float64(one[place]) * np.float64(two[place])
    total *= SCALE * SCALE
    if rest_of_one >= 0:
        for place in range(one.shape[0]):
            total += np.float64(rests_of_ones[rest_of_one, place]) * (np.float64(two[place]) * SCALE)
    if rest_of_two >= 0:
        for place in range(one.shape[0]):
            total += np.float64(rests_of_twos[rest_of_two, place]) * (np.float64(one[place]) * SCALE)
    if rest_of_one >= 0 and rest_of_two >= 0:
        for place in range(one.shape[0]):
            total += np.float64(rests_of_ones[rest_of_one, place]) * np.float64(rests_of_twos[rest_of_two, place])
    return total
