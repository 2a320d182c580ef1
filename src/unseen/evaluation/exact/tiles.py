"""Queries against a gallery in square tiles that fit the memory: exact similarities, and float32 ones to screen by."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from queue import SimpleQueue
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from unseen.evaluation.exact.arrays import Integers
from unseen.evaluation.exact.directions import Directions, Units
from unseen.evaluation.exact.inputs import Table
from unseen.evaluation.exact.threads import Run, thread_pool

# Square tiles of this side run at the processor's peak, wider blocks well below it.
SIDE = 2048
# Exact similarities multiply at most this many rows of the gallery at a time.
_ROWS_AT_ONCE = 1024


class Tile(NamedTuple):
    """Some queries against some items of the gallery; the float32 similarities are overwritten by a later tile."""

    rows: slice
    columns: slice
    row_units: Units
    column_units: Units
    similarity: Tensor


@dataclass(frozen=True)
class QueryGallery:
    """Queries and gallery in an order of their own, and which pairs of them do not count."""

    directions: Directions
    queries: Integers  # row numbers in the table
    gallery: Integers
    self_position: Integers  # for each query its position in the gallery, or -1
    query_groups: Integers | None  # if present, items of the query's own group are not compared
    gallery_groups: Integers | None

    @classmethod
    def from_table(cls, table: Table, queries: Integers, gallery: Integers) -> "QueryGallery":
        """Queries and gallery of a table, in the given order."""
        position = np.full(len(table.classes), -1)
        position[gallery] = np.arange(len(gallery))
        query_groups, gallery_groups = (
            None if table.groups is None else table.groups[rows] for rows in (queries, gallery)
        )
        return cls(table.directions, queries, gallery, position[queries], query_groups, gallery_groups)

    @property
    def is_symmetric(self) -> bool:
        """Whether the similarity of row i and column j is also that of row j and column i."""
        return np.array_equal(self.queries, self.gallery)

    def select(self, queries: Integers) -> "QueryGallery":
        """Only some of the queries, by their positions."""
        groups = None if self.query_groups is None else self.query_groups[queries]
        self_position = self.self_position[queries]
        return replace(self, queries=self.queries[queries], self_position=self_position, query_groups=groups)

    def exact(self, rows: slice, columns: slice) -> Tensor:
        """Inner products in integers times the item's inverse norm: they order each query's items exactly."""
        queries, items = self.queries[rows], self.gallery[columns]
        ones = self.directions.integers(queries).numpy()
        similarity = np.empty((len(queries), len(items)))
        for start in range(0, len(items), _ROWS_AT_ONCE):
            block = items[start : start + _ROWS_AT_ONCE]
            # NumPy computes only half of the product of a matrix and its own transpose.
            twos = ones if np.array_equal(queries, block) else self.directions.integers(block).numpy()
            np.matmul(ones, twos.T, out=similarity[:, start : start + len(block)])
        similarity *= self.directions.inverse_norms.numpy()[items]
        return torch.from_numpy(similarity)

    def exclude(self, similarity: Tensor, rows: slice, columns: slice, value: float) -> None:
        """Write a value where query and item are the same row, or of one group."""
        if self.query_groups is not None and self.gallery_groups is not None:
            queries, items = torch.from_numpy(self.query_groups[rows]), torch.from_numpy(self.gallery_groups[columns])
            similarity.masked_fill_(queries[:, None] == items, value)
        position = self.self_position[rows]
        inside = np.flatnonzero((position >= columns.start) & (position < columns.stop))
        similarity[torch.from_numpy(inside), torch.from_numpy(position[inside] - columns.start)] = value

    def candidates(self) -> Integers:
        """For each query the number of items that it is compared with."""
        if self.query_groups is None or self.gallery_groups is None:
            return len(self.gallery) - (self.self_position >= 0).astype(np.int64)
        groups = np.bincount(self.gallery_groups, minlength=int(self.query_groups.max()) + 1)
        return len(self.gallery) - groups[self.query_groups]

    def free_memory(self, memory: float) -> float:
        """Bytes of ``memory`` (in MB) beyond what the directions keep, at least half of it."""
        return max(memory * 1e6 - self.directions.bytes, memory * 1e6 / 2)


class ClassSpans(NamedTuple):
    """For each query: its class is that of the items from ``firsts`` to ``ends``; both are sorted by class."""

    firsts: Integers
    ends: Integers

    @classmethod
    def of(cls, query_classes: Integers, item_classes: Integers) -> "ClassSpans":
        """The spans of sorted classes."""
        firsts = np.searchsorted(item_classes, query_classes)
        return cls(firsts, np.searchsorted(item_classes, query_classes, side="right"))

    def exclude(self, similarity: Tensor, rows: slice, columns: slice, value: float) -> None:
        """Write a value where query and item are of one class."""
        # Classes ascend in both, so most tiles hold no pair of one class.
        if self.firsts[rows.start] >= columns.stop or self.ends[rows.stop - 1] <= columns.start:
            return
        firsts = np.maximum(self.firsts[rows], columns.start) - columns.start
        ends = np.minimum(self.ends[rows], columns.stop) - columns.start
        inside = np.flatnonzero(firsts < ends)
        if len(inside) == 0:
            return
        # Queries of one class are adjacent and have the same span: one rectangle per class.
        bounds = np.flatnonzero(np.diff(firsts[inside])) + 1
        for run in np.split(inside, bounds):
            similarity[int(run[0]) : int(run[-1]) + 1, int(firsts[run[0]]) : int(ends[run[0]])] = value


def tiles(
    query_gallery: QueryGallery, run: Run, *, memory: float, side: int = SIDE, is_symmetric: bool = False
) -> Iterator[Tile]:
    """All tiles of float32 similarities, one after another; with ``is_symmetric`` those on and above the diagonal."""
    side = _fitting(side, query_gallery, memory)
    buffer = _buffer(side, query_gallery)
    for tile in _empty_tiles(query_gallery, memory, side, is_symmetric):
        shaped = tile._replace(similarity=_shaped(buffer, tile))
        run(partial(_multiply, shaped), len(shaped.similarity))
        yield shaped


def work_on_tiles(
    query_gallery: QueryGallery,
    work: Callable[[Tile], int],
    *,
    memory: float,
    side: int = SIDE,
    is_symmetric: bool = False,
) -> Iterator[int]:
    """Compute each tile in one of as many threads as torch has, and call ``work`` on it there.

    Yields the results of the work, tile by tile. Work on one tile must not write what work on another reads.
    """
    with thread_pool() as (pool, threads):
        side = _fitting(side, query_gallery, memory, threads)
        buffers: SimpleQueue[Tensor] = SimpleQueue()
        for _ in range(threads):
            buffers.put(_buffer(side, query_gallery))

        def multiply_and_work(tile: Tile) -> int:
            buffer = buffers.get()
            try:
                shaped = tile._replace(similarity=_shaped(buffer, tile))
                _multiply(shaped, 0, len(shaped.similarity))
                return work(shaped)
            finally:
                buffers.put(buffer)

        running: deque[Future[int]] = deque()
        for tile in _empty_tiles(query_gallery, memory, side, is_symmetric):
            running.append(pool.submit(multiply_and_work, tile))
            # Not all at once: their unit vectors may not fit the memory.
            if len(running) > 2 * threads:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()


def _multiply(tile: Tile, start: int, stop: int) -> None:
    """Write the similarities of some rows of a tile."""
    torch.mm(tile.row_units.float32[start:stop], tile.column_units.float32.T, out=tile.similarity[start:stop])


def _fitting(side: int, query_gallery: QueryGallery, memory: float, threads: int = 1) -> int:
    """The side halved until the tiles of all threads and their unit vectors take at most half of the memory."""
    free, width = query_gallery.free_memory(memory), query_gallery.directions.width
    while side > 64 and threads * 4 * side**2 + 10 * side * width > free / 2:
        side //= 2
    return side


def _buffer(side: int, query_gallery: QueryGallery) -> Tensor:
    shape = min(side, len(query_gallery.queries)), min(side, len(query_gallery.gallery))
    return torch.empty(shape[0] * shape[1], dtype=torch.float32)


def _shaped(buffer: Tensor, tile: Tile) -> Tensor:
    """The beginning of a buffer as the similarities of a tile."""
    shape = (len(tile.row_units.float32), len(tile.column_units.float32))
    return buffer[: shape[0] * shape[1]].view(shape)


def _empty_tiles(query_gallery: QueryGallery, memory: float, side: int, is_symmetric: bool) -> Iterator[Tile]:
    """All tiles, still without similarities; a panel of queries stays in memory while the gallery passes by."""
    directions, nothing = query_gallery.directions, torch.empty(0)
    panel = side * max(1, int(query_gallery.free_memory(memory) / 2) // (5 * directions.width * side))
    queries, items = len(query_gallery.queries), len(query_gallery.gallery)
    for panel_start in range(0, queries, panel):
        panel_units = directions.units(query_gallery.queries[panel_start : panel_start + panel])
        for start in range(panel_start if is_symmetric else 0, items, side):
            columns = slice(start, min(start + side, items))
            if is_symmetric and start < panel_start + panel:
                column_units = panel_units.take(slice(start - panel_start, columns.stop - panel_start))
            else:
                column_units = directions.units(query_gallery.gallery[columns])
            for row in range(panel_start, min(panel_start + panel, queries), side):
                if is_symmetric and row > start:
                    break
                rows = slice(row, min(row + side, panel_start + panel, queries))
                row_units = panel_units.take(slice(rows.start - panel_start, rows.stop - panel_start))
                yield Tile(rows, columns, row_units, column_units, nothing)
