"""Exact similarities of each query to its positives: the thresholds that its other items are counted against."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unseen.evaluation.inputs import Table
from unseen.evaluation.tiles import Comparison, compare

# Small classes are compared several at a time, this many queries together.
_QUERIES_AT_ONCE = 64


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
    order: NDArray[np.int64]
    firsts: NDArray[np.int64]
    ends: NDArray[np.int64]
    starts: NDArray[np.int64]
    similarities: NDArray[np.float64]

    def exclude(self, similarity: Tensor, rows: slice, columns: slice, value: float) -> None:
        """Write a value where an item is of the query's class or does not count: what is left are the negatives."""
        self.comparison.exclude(similarity, rows, columns, value)
        firsts = np.maximum(self.firsts[rows], columns.start) - columns.start
        ends = np.minimum(self.ends[rows], columns.stop) - columns.start
        inside = np.flatnonzero(firsts < ends)
        if len(inside) == 0:
            return
        # Queries of one class stand together and have the same span: one rectangle a class.
        bounds = np.flatnonzero(np.diff(firsts[inside])) + 1
        for run in np.split(inside, bounds):
            similarity[int(run[0]) : int(run[-1]) + 1, int(firsts[run[0]]) : int(ends[run[0]])] = value

    def among_themselves(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
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

    counts, found = [np.zeros(1, dtype=np.int64)], [np.empty(0)]
    start = 0
    while start < len(asked):
        stop = _end_of_block(asked, firsts, ends, start, memory)
        rows, columns = slice(start, stop), slice(int(firsts[start]), int(ends[stop - 1]))
        similarity = comparison.exact(rows, columns)
        # Beyond every similarity: sorting puts what is no positive behind the positives.
        similarity.masked_fill_(torch.from_numpy(asked[rows])[:, None] != torch.from_numpy(answers[columns]), np.inf)
        comparison.exclude(similarity, rows, columns, np.inf)
        values = np.sort(similarity.numpy(), axis=1)
        is_positive = np.isfinite(values)
        counts.append(is_positive.sum(axis=1))
        found.append(values[is_positive])
        start = stop
    return Positives(comparison, order, firsts, ends, np.cumsum(np.concatenate(counts)), np.concatenate(found))


def _end_of_block(
    asked: NDArray[np.int64], firsts: NDArray[np.int64], ends: NDArray[np.int64], start: int, memory: float
) -> int:
    """Whole classes up to about 64 queries, or a part of one large class, with at most a quarter of the memory."""
    stop = min(start + _QUERIES_AT_ONCE, len(asked))
    if stop < len(asked) and asked[stop] != asked[start]:
        stop = int(np.searchsorted(asked, asked[stop]))
    # Three float64 arrays of queries times items.
    items = max(1, int(ends[stop - 1] - firsts[start]))
    return max(start + 1, min(stop, start + int(memory * 1e6 / 4 / (24 * items))))
