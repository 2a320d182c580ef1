"""Compiled loops over a tile of float32 similarities: screened in float32, decided in integers where needed."""

from typing import NamedTuple

import numpy as np

from unseen.evaluation.exact.arrays import Float32s, Floats, Int32s, Integers
from unseen.evaluation.exact.kernels import compiled
from unseen.evaluation.exact.kernels.products import exact_similarity
from unseen.evaluation.exact.thresholds import LEAST, Counts, Side, Thresholds

# Entries that are screened together: in a row, and in a block of rows and columns.
_TOGETHER = 256
_ROWS_TOGETHER = 64
_COLUMNS_TOGETHER = 256


class PositiveSpans(NamedTuple):
    """Where the positives of each query stand among the items; without groups both arrays of groups are empty."""

    firsts: Integers  # the items of the class of query q are those from firsts[q] to ends[q]
    ends: Integers
    self_position: Integers  # the query's own position among the items, which is no positive; outside the span if none
    query_groups: Integers  # items of the query's own group are no positives
    item_groups: Integers


@compiled
def similarities_to_positives(
    queries: Side, items: Side, spans: PositiveSpans, starts: Integers, similarities: Floats, counts: Integers
) -> None:
    """Write the exact similarities of each query to its positives, ascending, from ``starts[query]`` on.

    ``counts`` receives the number of positives of each query.
    """
    for query in range(spans.firsts.shape[0]):
        end = starts[query]
        for item in range(spans.firsts[query], spans.ends[query]):
            if item == spans.self_position[query]:
                continue
            if spans.item_groups.shape[0] > 0 and spans.item_groups[item] == spans.query_groups[query]:
                continue
            similarities[end] = exact_similarity(queries, query, items, item)
            end += 1
        similarities[starts[query] : end].sort()
        counts[query] = end - starts[query]


@compiled
def count_rows(tile: Float32s, rows: Side, columns: Side, thresholds: Thresholds, counts: Counts, limit: int) -> int:
    """Count the similarities of a tile against the thresholds of its rows.

    Returns the number of exact decisions, and stops as soon as there are more than ``limit``.
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
            for entry in range(entry_bits.shape[0]):
                largest = max(largest, entry_bits[entry])
            for slot in range(first, end):
                # The largest entry is below this threshold, so all are, and all further thresholds are higher.
                if largest <= low_bits[slot]:
                    break
                low, high = lows[slot], highs[slot]
                over_low, over_high = np.int32(0), np.int32(0)
                for entry in range(entries.shape[0]):
                    over_low = np.int32(over_low + np.int32(entries[entry] > low))
                    over_high = np.int32(over_high + np.int32(entries[entry] > high))
                above[slot] += over_high
                if over_low == over_high:
                    continue
                for entry in range(entries.shape[0]):
                    if entries[entry] > low and entries[entry] <= high:
                        decided += 1
                        column = start + entry
                        similarity = exact_similarity(rows, row, columns, column)
                        above[slot] += similarity > exact[slot]
                        tied[slot] += similarity == exact[slot]
        if decided > limit:
            break
    return decided


@compiled
def count_columns(tile: Float32s, rows: Side, columns: Side, thresholds: Thresholds, counts: Counts, limit: int) -> int:
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
        # One row per threshold of the columns, so that neighbouring columns are compared together.
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
            # Eight rows at a time: each count is loaded and stored once for eight comparisons.
            for row in range(top, bottom - 7, 8):
                one, two = tile[row, left:right], tile[row + 1, left:right]
                three, four = tile[row + 2, left:right], tile[row + 3, left:right]
                five, six = tile[row + 4, left:right], tile[row + 5, left:right]
                seven, eight = tile[row + 6, left:right], tile[row + 7, left:right]
                for slot in range(most):
                    lower, higher, sum_low, sum_high = low[slot], high[slot], over_low[slot], over_high[slot]
                    for entry in range(right - left):
                        limit_low, limit_high = lower[entry], higher[entry]
                        sum_low[entry] += (
                            np.int32(one[entry] > limit_low)
                            + np.int32(two[entry] > limit_low)
                            + np.int32(three[entry] > limit_low)
                            + np.int32(four[entry] > limit_low)
                            + np.int32(five[entry] > limit_low)
                            + np.int32(six[entry] > limit_low)
                            + np.int32(seven[entry] > limit_low)
                            + np.int32(eight[entry] > limit_low)
                        )
                        sum_high[entry] += (
                            np.int32(one[entry] > limit_high)
                            + np.int32(two[entry] > limit_high)
                            + np.int32(three[entry] > limit_high)
                            + np.int32(four[entry] > limit_high)
                            + np.int32(five[entry] > limit_high)
                            + np.int32(six[entry] > limit_high)
                            + np.int32(seven[entry] > limit_high)
                            + np.int32(eight[entry] > limit_high)
                        )
            for row in range(bottom - (bottom - top) % 8, bottom):
                one = tile[row, left:right]
                for slot in range(most):
                    for entry in range(right - left):
                        over_low[slot, entry] += one[entry] > low[slot, entry]
                        over_high[slot, entry] += one[entry] > high[slot, entry]
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


class Largest(NamedTuple):
    """The largest entries seen so far for each query."""

    values: Float32s  # similarities, in no order (queries, room)
    positions: Int32s  # their positions in the gallery
    floors: Float32s  # lower bound of what can still be among the k largest
    filled: Int32s  # number of entries in use; -1 for a query with more such entries than there is room for


@compiled
def collect_largest(
    tile: Float32s, first: tuple[int, int], largest: Largest, k: int, margin: float, part: tuple[int, int]
) -> None:
    """Collect the entries of the rows ``part`` that can be among the k largest: those above the row's floor.

    ``first`` is the query of the tile's first row and the gallery position of its first column.
    """
    values, positions, floors, filled = largest.values, largest.positions, largest.floors, largest.filled
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
                for entry in range(entries.shape[0]):
                    over = np.int32(over + np.int32(entries[entry] > floor))
                if over == 0:
                    continue
            for entry in range(entries.shape[0]):
                if entries[entry] <= floor:
                    continue
                values[query, filled[query]] = entries[entry]
                positions[query, filled[query]] = first[1] + start + entry
                filled[query] += 1
                if filled[query] == room:
                    ordered = np.sort(values[query])
                    floor = np.float32(ordered[room - k] - margin)
                    count = 0
                    for slot in range(room):
                        if values[query, slot] >= floor:
                            values[query, count] = values[query, slot]
                            positions[query, count] = positions[query, slot]
                            count += 1
                    floors[query] = floor
                    filled[query] = count if count < room else -1
                    if count == room:
                        break
            if filled[query] < 0:
                break
