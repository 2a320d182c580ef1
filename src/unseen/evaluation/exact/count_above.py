"""Counting against thresholds over a whole comparison: tiles screened in float32, or exact rows that are sorted."""

from collections.abc import Callable
from threading import Lock
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unseen.evaluation.exact.directions import Units
from unseen.evaluation.exact.positives import Positives
from unseen.evaluation.exact.progress import bar_when_long
from unseen.evaluation.exact.thresholds import (
    EXCLUDED,
    Counts,
    Side,
    Thresholds,
    error_bound,
    with_margins,
)
from unseen.evaluation.exact.tiles import Comparison, Tile, work_on_tiles

Kernel: TypeAlias = Callable[[NDArray[np.float32], Side, Side, Thresholds, Counts, int], int]

# Nearly as fast to multiply as larger tiles, still in the cache when they are counted, and fewer of them lie on the
# diagonal, where each product is done twice.
_SIDE = 1024
# With more thresholds a query than this, a table of bins is faster than one comparison a threshold.
_FEW_THRESHOLDS = 32
# A tile with a larger share of exact decisions (copies, collapsed models) is faster in float64.
_UNSURE_SHARE = 1 / 8


def count_by_screening(positives: Positives, *, memory: float, side: int = _SIDE, few: int = _FEW_THRESHOLDS) -> Counts:
    """Items above and at each positive; float32 products, and exact ones where those cannot tell."""
    from unseen.evaluation.exact.binned_kernels import count_columns_by_bins, count_rows_by_bins
    from unseen.evaluation.exact.kernels import count_columns, count_rows

    comparison = positives.comparison
    margin = error_bound(comparison.directions.width, comparison.directions.inverse_norms)
    thresholds = with_margins(positives.starts, positives.similarities, margin)
    # Positives are compared with each other already; tiles are left with the negatives.
    counts = Counts(*positives.among_themselves())
    is_symmetric = comparison.is_symmetric
    is_few = len(thresholds.exact) <= few * len(comparison.queries)
    kernels = (count_rows, count_columns) if is_few else (count_rows_by_bins, count_columns_by_bins)
    adding = Lock()

    def work(tile: Tile) -> int:
        positives.exclude(tile.similarity, tile.rows, tile.columns, EXCLUDED)
        is_mirrored = is_symmetric and tile.rows != tile.columns
        found = _count_screened(comparison, tile, thresholds, kernels if is_mirrored else kernels[:1])
        if found is None:
            found = _count_exactly(positives, tile, is_mirrored)
        # Tiles of the same queries are counted at the same time.
        with adding:
            for queries, numbers in zip((tile.rows, tile.columns), found, strict=False):
                _add(numbers, counts, positives, queries)
        return tile.similarity.numel() * len(found)

    with bar_when_long("ranking", len(comparison.queries) * len(comparison.gallery)) as progress:
        for done in work_on_tiles(comparison, work, memory=memory, side=side, is_symmetric=is_symmetric):
            progress(done)
    return counts


def count_by_sorting(positives: Positives, *, memory: float, chunk: int | None = None) -> Counts:
    """The same counts from exact similarities, whole rows of them sorted; no compiled loops."""
    comparison = positives.comparison
    counts = Counts(*positives.among_themselves())
    queries, gallery = len(comparison.queries), len(comparison.gallery)
    if chunk is None:
        left = max(memory * 1e6 - comparison.directions.bytes, memory * 1e6 / 2)
        most = int(np.diff(positives.starts).max(initial=0))
        # Similarities, what sorting needs beside them, and about four arrays as wide as the most positives.
        chunk = max(1, int(left / 2) // (8 * (2 * gallery + 4 * most)))
    columns = slice(0, gallery)
    with bar_when_long("ranking", queries * gallery) as progress:
        for start in range(0, queries, chunk):
            rows = slice(start, min(start + chunk, queries))
            similarity = comparison.exact(rows, columns)
            positives.exclude(similarity, rows, columns, -np.inf)
            _add(_count_sorted(similarity, rows, positives), counts, positives, rows)
            progress(similarity.numel())
    return counts


def _count_screened(
    comparison: Comparison, tile: Tile, thresholds: Thresholds, kernels: tuple[Kernel, ...]
) -> tuple[Counts, ...] | None:
    """Counts for the queries of a tile's rows and, with a second kernel, of its columns; None if too much is unsure."""
    rows, columns = _sides(comparison, tile)
    similarity = tile.similarity.numpy()
    limit = int(similarity.size * _UNSURE_SHARE)
    found: tuple[Counts, ...] = ()
    for queries, count in zip((tile.rows, tile.columns), kernels, strict=False):
        asked = thresholds.of(queries)
        counts = Counts(*np.zeros((2, len(asked.exact)), dtype=np.int64))
        if count(similarity, rows, columns, asked, counts, limit) > limit:
            return None
        found += (counts,)
    return found


def _count_exactly(positives: Positives, tile: Tile, is_mirrored: bool) -> tuple[Counts, ...]:
    """The same from exact similarities."""
    pairs = [(tile.rows, tile.columns)] + ([(tile.columns, tile.rows)] if is_mirrored else [])
    found = []
    for rows, columns in pairs:
        similarity = positives.comparison.exact(rows, columns)
        positives.exclude(similarity, rows, columns, -np.inf)
        found.append(_count_sorted(similarity, rows, positives))
    return tuple(found)


def _count_sorted(similarity: Tensor, queries: slice, positives: Positives) -> Counts:
    """Counts from rows of exact similarities, which are sorted in place."""
    starts = positives.starts[queries.start : queries.stop + 1]
    sizes = np.diff(starts)
    is_one = np.arange(sizes.max(initial=0)) < sizes[:, None]
    wanted = np.full(is_one.shape, np.inf)
    wanted[is_one] = positives.similarities[starts[0] : starts[-1]]
    similarity.numpy().sort(axis=1)
    values = torch.from_numpy(wanted)
    at_most = torch.searchsorted(similarity, values, right=True).numpy()[is_one]
    return Counts(similarity.shape[1] - at_most, at_most - torch.searchsorted(similarity, values).numpy()[is_one])


def _add(found: Counts, counts: Counts, positives: Positives, queries: slice) -> None:
    slots = slice(int(positives.starts[queries.start]), int(positives.starts[queries.stop]))
    counts.above[slots] += found.above
    counts.tied[slots] += found.tied


def _sides(comparison: Comparison, tile: Tile) -> tuple[Side, Side]:
    inverse_norms = comparison.directions.inverse_norms.numpy()

    def side(part: slice, units: Units, numbers: NDArray[np.int64]) -> Side:
        return Side(units.single.numpy(), units.rest_of, units.rest, inverse_norms[numbers[part]])

    return (
        side(tile.rows, tile.row_units, comparison.queries),
        side(tile.columns, tile.column_units, comparison.gallery),
    )
