"""Compiled loops over a tile of float32 similarities: screened in float32, decided in whole numbers.

To be imported where they are used, not at the top of a module: loading the compiler takes a second.
"""

import numpy as np
from numpy.typing import NDArray

from unseen.evaluation.compiled import compiled
from unseen.evaluation.counting import LEAST, Counts, Side, Thresholds

# Entries that are screened together: in a row, and in a block of rows and columns.
_TOGETHER = 256
_ROWS_TOGETHER = 64
_COLUMNS_TOGETHER = 256
# Bins between the lowest and the highest threshold of a row.
_BINS = 1024


@compiled
def count_rows(
    tile: NDArray[np.float32],
    bits: NDArray[np.int32],
    part: tuple[int, int],
    rows: Side,
    columns: Side,
    thresholds: Thresholds,
    counts: Counts,
    limit: int,
) -> int:
    """Count the similarities of some rows of a tile against the rows' thresholds.

    Gives the number of exact decisions, and stops as soon as there are more than ``limit``.
    """
    starts, exact, above, tied = thresholds.starts, thresholds.exact, counts.above, counts.tied
    lows, highs, low_bits = thresholds.low, thresholds.high, thresholds.bits
    decided = 0
    for row in range(part[0], part[1]):
        first, end = starts[rows.first + row], starts[rows.first + row + 1]
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
    tile: NDArray[np.float32],
    part: tuple[int, int],
    rows: Side,
    columns: Side,
    thresholds: Thresholds,
    counts: Counts,
    limit: int,
) -> int:
    """Count as `count_rows` does, for rows with many thresholds: a table says which ones a similarity exceeds.

    The range of a row's thresholds is cut into bins. Rounding keeps order, so a similarity whose bin lies above that of
    ``high`` is above ``high``; one that shares a bin with any of the two bounds is looked at.
    """
    starts, exact, above, tied = thresholds.starts, thresholds.exact, counts.above, counts.tied
    lows, highs = thresholds.low, thresholds.high
    most = np.int64(0)
    for row in range(part[0], part[1]):
        most = max(most, starts[rows.first + row + 1] - starts[rows.first + row])
    passed = np.zeros(most + 2, dtype=np.int32)
    # Neighbours often fall between the same thresholds; counted apart, none waits for the one before.
    apart = np.zeros((4, most + 2), dtype=np.int32)
    # Numbers without a sign: one with a sign is asked at each use whether it counts from the end.
    exceeded = np.zeros(_BINS + 3, dtype=np.uint16)
    bins = np.zeros(tile.shape[1], dtype=np.uint16)
    unsure = np.uint16(most + 1)
    last = np.float32(_BINS + 2)
    nothing, one = np.float32(0), np.float32(1)
    decided = 0
    for row in range(part[0], part[1]):
        first, end = starts[rows.first + row], starts[rows.first + row + 1]
        if first == end:
            continue
        base = lows[first]
        scale = np.float32(np.float32(_BINS) / np.float32(highs[end - 1] - base))
        entries = tile[row]
        for place in range(entries.shape[0]):
            position = np.float32(np.float32(np.float32(entries[place] - base) * scale) + one)
            position = position if position > nothing else nothing
            bins[place] = np.uint16(position if position < last else last)
        filled = 0
        for slot in range(first, end):
            lower = min(int(np.float32(np.float32(lows[slot] - base) * scale) + one), _BINS + 2)
            upper = min(int(np.float32(np.float32(highs[slot] - base) * scale) + one), _BINS + 2)
            for place in range(filled, lower):
                exceeded[place] = slot - first
            for place in range(max(filled, lower), upper + 1):
                exceeded[place] = unsure
            filled = max(filled, upper + 1)
        for place in range(filled, _BINS + 3):
            exceeded[place] = end - first
        # The last place counts those that are looked at.
        whole = entries.shape[0] - entries.shape[0] % 4
        for place in range(0, whole, 4):
            apart[0, exceeded[bins[place]]] += 1
            apart[1, exceeded[bins[place + 1]]] += 1
            apart[2, exceeded[bins[place + 2]]] += 1
            apart[3, exceeded[bins[place + 3]]] += 1
        for place in range(whole, entries.shape[0]):
            apart[0, exceeded[bins[place]]] += 1
        for slot in range(most + 2):
            passed[slot] = apart[0, slot] + apart[1, slot] + apart[2, slot] + apart[3, slot]
        apart[:] = 0
        if passed[most + 1] > 0:
            for place in range(entries.shape[0]):
                if exceeded[bins[place]] != unsure:
                    continue
                value = entries[place]
                slot = first
                span = end - first
                while span > 0:
                    half = span // 2
                    if value > highs[slot + half]:
                        slot += half + 1
                        span -= half + 1
                    else:
                        span = half
                passed[slot - first] += 1
                if slot < end and value > lows[slot]:
                    decided += 1
                    similarity = columns.inverse_norms[place] * whole_product(
                        rows.single[row],
                        columns.single[place],
                        rows.rest_of[row],
                        columns.rest_of[place],
                        rows.rest,
                        columns.rest,
                    )
                    while slot < end and value > lows[slot]:
                        above[slot] += similarity > exact[slot]
                        tied[slot] += similarity == exact[slot]
                        slot += 1
        higher = 0
        for slot in range(end - 1, first - 1, -1):
            higher += passed[slot - first + 1]
            above[slot] += higher
        if decided > limit:
            break
    return decided


@compiled
def count_columns(
    tile: NDArray[np.float32],
    part: tuple[int, int],
    rows: Side,
    columns: Side,
    thresholds: Thresholds,
    counts: Counts,
    limit: int,
) -> int:
    """Count the similarities of some columns of a tile against the columns' thresholds, as `count_rows` does."""
    starts, exact, above, tied = thresholds.starts, thresholds.exact, counts.above, counts.tied
    lows, highs = thresholds.low, thresholds.high
    decided = 0
    height = tile.shape[0]
    for left in range(part[0], part[1], _COLUMNS_TOGETHER):
        right = min(left + _COLUMNS_TOGETHER, part[1])
        most = np.int64(0)
        for query in range(columns.first + left, columns.first + right):
            most = max(most, starts[query + 1] - starts[query])
        # One row for each threshold of the columns, so that neighbouring columns are compared together.
        low = np.full((most, right - left), np.float32(4.0))
        high = low.copy()
        for column in range(left, right):
            first, end = starts[columns.first + column], starts[columns.first + column + 1]
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
                first = starts[columns.first + column]
                for slot in range(first, starts[columns.first + column + 1]):
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


@compiled
def whole_product(
    one: NDArray[np.float32],
    two: NDArray[np.float32],
    rest_of_one: int,
    rest_of_two: int,
    rests_of_ones: NDArray[np.int8],
    rests_of_twos: NDArray[np.int8],
) -> float:
    """The inner product of two rows in whole numbers: below 2^53, so float64 holds it."""
    scale = np.float32(67108864.0)
    total = np.int64(0)
    for place in range(one.shape[0]):
        total += np.int64(np.int32(one[place] * scale)) * np.int64(np.int32(two[place] * scale))
    if rest_of_one >= 0:
        for place in range(one.shape[0]):
            total += np.int64(rests_of_ones[rest_of_one, place]) * np.int64(two[place] * scale)
    if rest_of_two >= 0:
        for place in range(one.shape[0]):
            total += np.int64(one[place] * scale) * np.int64(rests_of_twos[rest_of_two, place])
    if rest_of_one >= 0 and rest_of_two >= 0:
        for place in range(one.shape[0]):
            total += np.int64(rests_of_ones[rest_of_one, place]) * np.int64(rests_of_twos[rest_of_two, place])
    return float(total)
