"""Exact similarities of each query to its positives: the thresholds that its other items are counted against."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from unseen.evaluation.exact.arrays import Floats, Integers
from unseen.evaluation.exact.inputs import Table
from unseen.evaluation.exact.kernels import IS_COMPILED
from unseen.evaluation.exact.threads import run_in_threads
from unseen.evaluation.exact.thresholds import Side, side
from unseen.evaluation.exact.tiles import ClassSpans, QueryGallery

# Small classes are compared several at a time, this many queries together.
_QUERIES_AT_ONCE = 64
_QUERIES_PER_LOOP = 512
# For fewer pairs, loading or compiling the loops takes longer than it saves.
_MANY_PAIRS = 2**22
_LARGE_CLASS = 256


class Positives(NamedTuple):
    """Queries in the order of their classes, small classes first, and the similarities of their positives."""

    query_gallery: QueryGallery  # in that order
    order: Integers  # position of each query among the queries of the table
    spans: ClassSpans  # where the items of each query's class stand in the gallery
    starts: Integers  # query q has the similarities from starts[q] to starts[q + 1]
    similarities: Floats  # ascending within each query, the queries one after another

    def exclude(self, similarity: Tensor, rows: slice, columns: slice, value: float) -> None:
        """Write a value where an item is of the query's class or is no candidate, so that negatives remain."""
        if self.query_gallery.query_groups is not None:
            self.query_gallery.exclude(similarity, rows, columns, value)
        # The query itself is of its class.
        self.spans.exclude(similarity, rows, columns, value)

    def compared_with_each_other(self) -> tuple[Integers, Integers]:
        """For each positive: positives of its query above it, and equally similar ones, itself included."""
        sizes = np.diff(self.starts)
        is_first = np.ones(len(self.similarities), dtype=bool)
        is_first[1:] = np.diff(self.similarities) != 0
        is_first[self.starts[:-1][sizes > 0]] = True
        firsts = np.flatnonzero(is_first)
        lengths = np.diff(np.append(firsts, len(self.similarities)))
        above = np.repeat(self.starts[1:], sizes) - np.repeat(firsts + lengths, lengths)
        return above, np.repeat(lengths, lengths)


def find_positives(table: Table, *, memory: float) -> Positives:
    """The positives of all queries: other items of the query's class, not of its group."""
    # Classes by size and then by number: adjacent queries then have about the same number of positives.
    count = table.class_count
    sizes = np.bincount(table.classes[table.gallery], minlength=count)
    number = np.empty(count, dtype=np.int64)
    number[np.lexsort((np.arange(count), sizes))] = np.arange(count)
    # Row numbers settle the order inside a class, so that equal sets of queries and gallery are ordered alike.
    order = np.lexsort((table.queries, number[table.classes[table.queries]]))
    gallery = table.gallery[np.lexsort((table.gallery, number[table.classes[table.gallery]]))]
    query_gallery = QueryGallery.from_table(table, table.queries[order], gallery)
    spans = ClassSpans.of(number[table.classes[query_gallery.queries]], number[table.classes[gallery]])

    is_large = len(order) * len(gallery) >= _MANY_PAIRS
    # For large classes, matrix products are faster than compiled loops.
    has_small_classes = int((spans.ends - spans.firsts).sum()) <= _LARGE_CLASS * len(order)
    find = _by_compiled_loops if IS_COMPILED and is_large and has_small_classes else _by_sorting
    counts, similarities = find(query_gallery, spans, memory)
    return Positives(query_gallery, order, spans, np.append(0, np.cumsum(counts)), similarities)


def _by_compiled_loops(query_gallery: QueryGallery, spans: ClassSpans, memory: float) -> tuple[Integers, Floats]:
    """The number of positives of each query, and their similarities."""
    from unseen.evaluation.exact.kernels.screening import PositiveSpans, similarities_to_positives

    (firsts, ends), directions = spans, query_gallery.directions
    inverse_norms = directions.inverse_norms.numpy()
    # A query that is in the gallery stands among the items of its class.
    sizes = ends - firsts - (query_gallery.self_position >= 0)
    starts, counts = np.cumsum(sizes) - sizes, np.empty_like(sizes)
    similarities = np.empty(int(sizes.sum()))
    step = max(1, min(_QUERIES_PER_LOOP, int(memory * 1e6 / 32 / (4 * directions.width))))
    query_groups, item_groups = query_gallery.query_groups, query_gallery.gallery_groups
    if query_groups is None or item_groups is None:
        query_groups = item_groups = np.empty(0, dtype=np.int64)

    def side_of(rows: Integers) -> Side:
        return side(directions.units(rows), inverse_norms[rows])

    def find(start: int, stop: int) -> None:
        for first in range(start, stop, step):
            rows = slice(first, min(first + step, stop))
            columns = slice(int(firsts[rows.start]), int(ends[rows.stop - 1]))
            positions = PositiveSpans(
                firsts[rows] - columns.start,
                ends[rows] - columns.start,
                query_gallery.self_position[rows] - columns.start,
                query_groups[rows],
                item_groups[columns],
            )
            queries, items = side_of(query_gallery.queries[rows]), side_of(query_gallery.gallery[columns])
            similarities_to_positives(queries, items, positions, starts[rows], similarities, counts[rows])

    with run_in_threads() as run:
        run(find, len(firsts))
    if len(item_groups):
        # Items of the query's own group left their slots unused.
        is_used = np.arange(len(similarities)) - np.repeat(starts, sizes) < np.repeat(counts, sizes)
        similarities = similarities[is_used]
    return counts, similarities


def _by_sorting(query_gallery: QueryGallery, spans: ClassSpans, memory: float) -> tuple[Integers, Floats]:
    """The same from matrix products whose rows are sorted; no compiled loops."""
    firsts, ends = spans
    counts, similarities = [np.zeros(0, dtype=np.int64)], [np.empty(0)]
    start = 0
    while start < len(firsts):
        stop = _end_of_block(firsts, ends, start, memory)
        rows, columns = slice(start, stop), slice(int(firsts[start]), int(ends[stop - 1]))
        similarity = query_gallery.exact(rows, columns)
        # Infinity sorts what is no positive behind the positives.
        position = torch.arange(columns.start, columns.stop)
        is_before = position < torch.from_numpy(firsts[rows])[:, None]
        similarity.masked_fill_(is_before | (position >= torch.from_numpy(ends[rows])[:, None]), np.inf)
        query_gallery.exclude(similarity, rows, columns, np.inf)
        values = np.sort(similarity.numpy(), axis=1)
        is_positive = np.isfinite(values)
        counts.append(is_positive.sum(axis=1))
        similarities.append(values[is_positive])
        start = stop
    return np.concatenate(counts), np.concatenate(similarities)


def _end_of_block(firsts: Integers, ends: Integers, start: int, memory: float) -> int:
    """Complete classes up to about 64 queries, or a part of one large class, within a quarter of the memory."""
    stop = min(start + _QUERIES_AT_ONCE, len(firsts))
    if stop < len(firsts) and firsts[stop] != firsts[start]:
        stop = int(np.searchsorted(firsts, firsts[stop]))
    # Three float64 arrays of queries times items.
    items = max(1, int(ends[stop - 1] - firsts[start]))
    return max(start + 1, min(stop, start + int(memory * 1e6 / 4 / (24 * items))))
