"""Exact similarities of each query to its positives: the thresholds that its other items are counted against."""

from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unseen.evaluation.exact.compiled import IS_COMPILED
from unseen.evaluation.exact.inputs import Table
from unseen.evaluation.exact.threads import workers
from unseen.evaluation.exact.thresholds import Side
from unseen.evaluation.exact.tiles import Comparison, compare

Whole: TypeAlias = NDArray[np.int64]
Values: TypeAlias = NDArray[np.float64]

# Small classes are compared several at a time, this many queries together.
_QUERIES_AT_ONCE = 64
_LOOPS_AT_ONCE = 512
# Loading or compiling the loops takes longer than these few pairs.
_MANY_PAIRS = 2**22
_LARGE_CLASS = 256


class Positives(NamedTuple):
    """Queries in the order of their classes, small classes first, and the similarities of their positives.

    ============  ====================================================================================
    comparison    queries and gallery in that order
    order         place of each query among the queries of the table
    firsts, ends  where in the gallery the items of each query's class stand
    starts        query q has the similarities from ``starts[q]`` to ``starts[q + 1]``
    similarities  ascending for each query, one query after the other
    ============  ====================================================================================
    """

    comparison: Comparison
    order: Whole
    firsts: Whole
    ends: Whole
    starts: Whole
    similarities: Values

    def exclude(self, similarity: Tensor, rows: slice, columns: slice, value: float) -> None:
        """Write a value where an item is of the query's class or does not count: what is left are the negatives."""
        if self.comparison.query_groups is not None:
            self.comparison.exclude(similarity, rows, columns, value)
        # Classes ascend in both, so most tiles hold no query and item of one; the query itself is of its class.
        if self.firsts[rows.start] >= columns.stop or self.ends[rows.stop - 1] <= columns.start:
            return
        firsts = np.maximum(self.firsts[rows], columns.start) - columns.start
        ends = np.minimum(self.ends[rows], columns.stop) - columns.start
        inside = np.flatnonzero(firsts < ends)
        if len(inside) == 0:
            return
        # Queries of one class stand together and have the same span: one rectangle a class.
        bounds = np.flatnonzero(np.diff(firsts[inside])) + 1
        for run in np.split(inside, bounds):
            similarity[int(run[0]) : int(run[-1]) + 1, int(firsts[run[0]]) : int(ends[run[0]])] = value

    def among_themselves(self) -> tuple[Whole, Whole]:
        """For each positive: positives of its query above it, and as similar as it, itself among them."""
        sizes = np.diff(self.starts)
        is_first = np.ones(len(self.similarities), dtype=bool)
        is_first[1:] = np.diff(self.similarities) != 0
        is_first[self.starts[:-1][sizes > 0]] = True
        firsts = np.flatnonzero(is_first)
        lengths = np.diff(np.append(firsts, len(self.similarities)))
        above = np.repeat(self.starts[1:], sizes) - np.repeat(firsts + lengths, lengths)
        return above, np.repeat(lengths, lengths)


def find_positives(table: Table, *, memory: float) -> Positives:
    """The positives of all queries: items of the query's class that may answer it."""
    # Classes by size and then by number: queries side by side then have about as many positives.
    count = int(table.classes.max()) + 1
    sizes = np.bincount(table.classes[table.gallery], minlength=count)
    number = np.empty(count, dtype=np.int64)
    number[np.lexsort((np.arange(count), sizes))] = np.arange(count)
    # Row numbers settle the order inside a class, so that queries and gallery of one set stand alike.
    order = np.lexsort((table.queries, number[table.classes[table.queries]]))
    gallery = table.gallery[np.lexsort((table.gallery, number[table.classes[table.gallery]]))]
    comparison = compare(table, table.queries[order], gallery)
    asked, answers = number[table.classes[comparison.queries]], number[table.classes[gallery]]
    firsts, ends = np.searchsorted(answers, asked), np.searchsorted(answers, asked, side="right")

    find = _by_compiled_loops if _is_long(comparison, firsts, ends) else _by_sorting
    counts, found = find(comparison, firsts, ends, memory)
    return Positives(comparison, order, firsts, ends, np.append(0, np.cumsum(counts)), found)


def _is_long(comparison: Comparison, firsts: Whole, ends: Whole) -> bool:
    """Whether compiled loops are worth loading; for large classes, products of matrices are faster than loops."""
    queries = len(comparison.queries)
    return (
        IS_COMPILED
        and queries * len(comparison.gallery) >= _MANY_PAIRS
        and int((ends - firsts).sum()) <= _LARGE_CLASS * queries
    )


def _by_compiled_loops(comparison: Comparison, firsts: Whole, ends: Whole, memory: float) -> tuple[Whole, Values]:
    """How many positives each query has, and their similarities."""
    from unseen.evaluation.exact.kernels import compare_with_positives

    directions = comparison.directions
    inverse_norms = directions.inverse_norms.numpy()
    # A query that is in the gallery stands among the items of its class.
    sizes = ends - firsts - (comparison.own >= 0)
    starts, counts = np.cumsum(sizes) - sizes, np.empty_like(sizes)
    found = np.empty(int(sizes.sum()))
    step = max(1, min(_LOOPS_AT_ONCE, int(memory * 1e6 / 32 / (4 * directions.width))))
    asked_groups, item_groups = comparison.query_groups, comparison.gallery_groups
    if asked_groups is None or item_groups is None:
        asked_groups = item_groups = np.empty(0, dtype=np.int64)

    def side(rows: Whole) -> Side:
        units = directions.units(rows)
        return Side(units.single.numpy(), units.rest_of, units.rest, inverse_norms[rows])

    def part(bounds: tuple[int, int]) -> int:
        for start in range(*bounds, step):
            rows = slice(start, min(start + step, bounds[1]))
            columns = slice(int(firsts[rows.start]), int(ends[rows.stop - 1]))
            compare_with_positives(
                side(comparison.queries[rows]),
                side(comparison.gallery[columns]),
                firsts[rows] - columns.start,
                ends[rows] - columns.start,
                comparison.own[rows] - columns.start,
                asked_groups[rows],
                item_groups[columns],
                starts[rows],
                found,
                counts[rows],
            )
        return 0

    with workers() as run:
        run(part, len(firsts))
    if len(item_groups):
        # Those of the query's own group left their places free.
        found = found[np.arange(len(found)) - np.repeat(starts, sizes) < np.repeat(counts, sizes)]
    return counts, found


def _by_sorting(comparison: Comparison, firsts: Whole, ends: Whole, memory: float) -> tuple[Whole, Values]:
    """The same from products of matrices whose rows are sorted; no compiled loops."""
    counts, found = [np.zeros(0, dtype=np.int64)], [np.empty(0)]
    start = 0
    while start < len(firsts):
        stop = _end_of_block(firsts, ends, start, memory)
        rows, columns = slice(start, stop), slice(int(firsts[start]), int(ends[stop - 1]))
        similarity = comparison.exact(rows, columns)
        # Beyond every similarity: sorting puts what is no positive behind the positives.
        place = torch.arange(columns.start, columns.stop)
        is_before = place < torch.from_numpy(firsts[rows])[:, None]
        similarity.masked_fill_(is_before | (place >= torch.from_numpy(ends[rows])[:, None]), np.inf)
        comparison.exclude(similarity, rows, columns, np.inf)
        values = np.sort(similarity.numpy(), axis=1)
        is_positive = np.isfinite(values)
        counts.append(is_positive.sum(axis=1))
        found.append(values[is_positive])
        start = stop
    return np.concatenate(counts), np.concatenate(found)


def _end_of_block(firsts: Whole, ends: Whole, start: int, memory: float) -> int:
    """Whole classes up to about 64 queries, or a part of one large class, with at most a quarter of the memory."""
    stop = min(start + _QUERIES_AT_ONCE, len(firsts))
    if stop < len(firsts) and firsts[stop] != firsts[start]:
        stop = int(np.searchsorted(firsts, firsts[stop]))
    # Three float64 arrays of queries times items.
    items = max(1, int(ends[stop - 1] - firsts[start]))
    return max(start + 1, min(stop, start + int(memory * 1e6 / 4 / (24 * items))))
