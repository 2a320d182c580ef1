"""Queries against a gallery, in square tiles that fit the memory: exact similarities, and float32 ones to screen by."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unseen.evaluation.exact.directions import Directions, Units
from unseen.evaluation.exact.inputs import Table
from unseen.evaluation.exact.threads import Run, own_threads

# Square tiles of this side run at the processor's peak, wider blocks well below it.
SIDE = 2048
# Exact similarities multiply at most this many rows of the gallery at a time.
_ROWS_AT_ONCE = 1024


class Place(NamedTuple):
    """A part of the queries and a part of the gallery, with their unit vectors."""

    rows: slice
    columns: slice
    row_units: Units
    column_units: Units

    def shaped(self, buffer: Tensor) -> Tensor:
        """The beginning of a buffer as a table of queries and items."""
        shape = (len(self.row_units.single), len(self.column_units.single))
        return buffer[: shape[0] * shape[1]].view(shape)


class Tile(NamedTuple):
    """A part of the queries against a part of the gallery, with float32 similarities that are written over later."""

    rows: slice
    columns: slice
    row_units: Units
    column_units: Units
    similarity: Tensor


@dataclass(frozen=True)
class Comparison:
    """Queries and gallery in an order of their own, and which pairs of them do not count.

    =============  =====================================================================================
    queries        row numbers in the table, likewise ``gallery``
    own            for each query its place in the gallery, or -1
    query_groups   where given: no item answers a query of its own group; likewise ``gallery_groups``
    =============  =====================================================================================
    """

    directions: Directions
    queries: NDArray[np.int64]
    gallery: NDArray[np.int64]
    own: NDArray[np.int64]
    query_groups: NDArray[np.int64] | None
    gallery_groups: NDArray[np.int64] | None

    @property
    def is_symmetric(self) -> bool:
        """Whether the similarity of row i and column j is also that of row j and column i."""
        return np.array_equal(self.queries, self.gallery)

    def only(self, queries: NDArray[np.int64]) -> "Comparison":
        """The comparison of some of the queries, by their places."""
        groups = None if self.query_groups is None else self.query_groups[queries]
        return replace(self, queries=self.queries[queries], own=self.own[queries], query_groups=groups)

    def exact(self, rows: slice, columns: slice) -> Tensor:
        """Inner products in whole numbers times the item's inverse norm: the exact order of each query's items."""
        asked, items = self.directions.whole(self.queries[rows]), self.gallery[columns]
        similarity = torch.empty((len(asked), len(items)), dtype=torch.float64)
        for start in range(0, len(items), _ROWS_AT_ONCE):
            block = items[start : start + _ROWS_AT_ONCE]
            torch.mm(asked, self.directions.whole(block).T, out=similarity[:, start : start + len(block)])
        return similarity.mul_(self.directions.inverse_norms[torch.from_numpy(items)])

    def exclude(self, similarity: Tensor, rows: slice, columns: slice, value: float) -> None:
        """Write a value where query and item are the same, or of one group."""
        if self.query_groups is not None and self.gallery_groups is not None:
            asked, items = torch.from_numpy(self.query_groups[rows]), torch.from_numpy(self.gallery_groups[columns])
            similarity.masked_fill_(asked[:, None] == items, value)
        own = self.own[rows]
        inside = np.flatnonzero((own >= columns.start) & (own < columns.stop))
        similarity[torch.from_numpy(inside), torch.from_numpy(own[inside] - columns.start)] = value

    def candidates(self) -> NDArray[np.int64]:
        """For each query the number of items that count."""
        if self.query_groups is None or self.gallery_groups is None:
            return len(self.gallery) - (self.own >= 0).astype(np.int64)
        groups = np.bincount(self.gallery_groups, minlength=int(self.query_groups.max()) + 1)
        return len(self.gallery) - groups[self.query_groups]


def compare(table: Table, queries: NDArray[np.int64], gallery: NDArray[np.int64]) -> Comparison:
    """Queries and gallery of a table in the order given."""
    places = np.full(len(table.classes), -1)
    places[gallery] = np.arange(len(gallery))
    groups = table.groups
    return Comparison(
        table.directions,
        queries,
        gallery,
        places[queries],
        None if groups is None else groups[queries],
        None if groups is None else groups[gallery],
    )


def _multiply(left: Tensor, right: Tensor, product: Tensor, run: Run) -> None:
    def part(bounds: tuple[int, int]) -> int:
        torch.mm(left[slice(*bounds)], right.T, out=product[slice(*bounds)])
        return 0

    run(part, len(left))


def tiles(
    comparison: Comparison, run: Run, *, memory: float, side: int = SIDE, is_symmetric: bool = False
) -> Iterator[Tile]:
    """All tiles of float32 similarities, one after the other; of a symmetric comparison as in `_places`."""
    side = _fitting(side, comparison, memory)
    # Each product is written over the one before.
    buffer = _buffer(side, comparison)
    for place in _places(comparison, memory, side, is_symmetric):
        similarity = place.shaped(buffer)
        _multiply(place.row_units.single, place.column_units.single, similarity, run)
        yield Tile(*place, similarity)


def work_on_tiles(
    comparison: Comparison, work: Callable[[Tile], int], *, memory: float, side: int = SIDE, is_symmetric: bool = False
) -> Iterator[int]:
    """Give each tile to one of as many threads as torch has, to multiply it and to work on it.

    Gives what the work gave, tile by tile. Work on one tile must not write what that on another reads.
    """
    with own_threads() as (pool, threads):
        side = _fitting(side, comparison, memory, threads)
        buffers: SimpleQueue[Tensor] = SimpleQueue()
        for _ in range(threads):
            buffers.put(_buffer(side, comparison))

        def one(place: Place) -> int:
            buffer = buffers.get()
            try:
                similarity = place.shaped(buffer)
                torch.mm(place.row_units.single, place.column_units.single.T, out=similarity)
                return work(Tile(*place, similarity))
            finally:
                buffers.put(buffer)

        begun: deque[Future[int]] = deque()
        for place in _places(comparison, memory, side, is_symmetric):
            begun.append(pool.submit(one, place))
            # Not all at once: their unit vectors may not fit the memory.
            if len(begun) > 2 * threads:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()


def _left(comparison: Comparison, memory: float) -> float:
    """Bytes beyond what the directions keep."""
    return max(memory * 1e6 - comparison.directions.bytes, memory * 1e6 / 2)


def _fitting(side: int, comparison: Comparison, memory: float, threads: int = 1) -> int:
    while side > 64 and threads * 4 * side**2 + 10 * side * comparison.directions.width > _left(comparison, memory) / 2:
        side //= 2
    return side


def _buffer(side: int, comparison: Comparison) -> Tensor:
    return torch.empty(min(side, len(comparison.queries)) * min(side, len(comparison.gallery)), dtype=torch.float32)


def _places(comparison: Comparison, memory: float, side: int, is_symmetric: bool) -> Iterator[Place]:
    """All tiles; of a symmetric comparison those on and above the diagonal.

    A panel of queries stays in memory while the gallery passes by.
    """
    directions = comparison.directions
    panel = side * max(1, int(_left(comparison, memory) / 2) // (5 * directions.width * side))
    queries, items = len(comparison.queries), len(comparison.gallery)
    for panel_start in range(0, queries, panel):
        panel_units = directions.units(comparison.queries[panel_start : panel_start + panel])
        for start in range(panel_start if is_symmetric else 0, items, side):
            columns = slice(start, min(start + side, items))
            if is_symmetric and start < panel_start + panel:
                column_units = panel_units.take(slice(start - panel_start, columns.stop - panel_start))
            else:
                column_units = directions.units(comparison.gallery[columns])
            for row in range(panel_start, min(panel_start + panel, queries), side):
                if is_symmetric and row > start:
                    break
                rows = slice(row, min(row + side, panel_start + panel, queries))
                row_units = panel_units.take(slice(rows.start - panel_start, rows.stop - panel_start))
                yield Place(rows, columns, row_units, column_units)
