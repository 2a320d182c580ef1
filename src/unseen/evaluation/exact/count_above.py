"""For each positive: how many items rank above it and tie with it, by float32 screening or by sorting exact rows."""

from collections.abc import Callable
from threading import Lock
from typing import TypeAlias

import numpy as np
import torch

from unseen.core.console import bar_when_long
from unseen.evaluation.exact.arrays import Float32s, Floats, Integers
from unseen.evaluation.exact.positives import Positives
from unseen.evaluation.exact.thresholds import EXCLUDED, Counts, Side, Thresholds, error_bound, side, with_margins
from unseen.evaluation.exact.tiles import QueryGallery, Tile, work_on_tiles

Kernel: TypeAlias = Callable[[Float32s, Side, Side, Thresholds, Counts, int], int]

# Nearly as fast to multiply as larger tiles, still in the cache when they are counted, and fewer of them lie on the
# diagonal, where each product is computed twice.
_SIDE = 1024
# With more thresholds per query than this, a table of bins is faster than one comparison per threshold.
_FEW_THRESHOLDS = 32
# With more thresholds than this, sorting a row is faster than comparing it with each of them.
_FEW_SLOTS = 6
# A tile with a larger share of exact decisions (copies, collapsed models) is faster in float64.
_MAX_EXACT_SHARE = 1 / 8


def count_by_screening(
    positives: Positives, *, memory: float, tile_side: int = _SIDE, few: int = _FEW_THRESHOLDS
) -> Counts:
    """Count in tiles of float32 similarities, with exact products where float32 cannot decide."""
    from unseen.evaluation.exact.kernels.binned import count_columns_by_bins, count_rows_by_bins
    from unseen.evaluation.exact.kernels.screening import count_columns, count_rows

    query_gallery = positives.query_gallery
    margin = error_bound(query_gallery.directions.width, query_gallery.directions.inverse_norms)
    thresholds = with_margins(positives.starts, positives.similarities, margin)
    # Positives are compared with each other here; the tiles then hold negatives only.
    counts = Counts(*positives.compared_with_each_other())
    is_symmetric = query_gallery.is_symmetric
    is_few = len(thresholds.exact) <= few * len(query_gallery.queries)
    kernels = (count_rows, count_columns) if is_few else (count_rows_by_bins, count_columns_by_bins)
    lock = Lock()

    def work(tile: Tile) -> int:
        positives.exclude(tile.similarity, tile.rows, tile.columns, EXCLUDED)
        is_mirrored = is_symmetric and tile.rows != tile.columns
        tile_counts = _count_screened(query_gallery, tile, thresholds, kernels if is_mirrored else kernels[:1])
        if tile_counts is None:
            tile_counts = (_count_exactly(positives, tile.rows, tile.columns),)
            if is_mirrored:
                tile_counts += (_count_exactly(positives, tile.columns, tile.rows),)
        # Tiles of the same queries are counted at the same time.
        with lock:
            for queries, new in zip((tile.rows, tile.columns), tile_counts, strict=False):
                _add(new, counts, positives, queries)
        return tile.similarity.numel() * len(tile_counts)

    done, total = 0, len(query_gallery.queries) * len(query_gallery.gallery)
    with bar_when_long("ranking") as progress:
        for pairs in work_on_tiles(query_gallery, work, memory=memory, side=tile_side, is_symmetric=is_symmetric):
            done += pairs
            progress(done, total, "")
    return counts


def count_by_sorting(positives: Positives, *, memory: float, chunk: int | None = None) -> Counts:
    """The same counts from rows of exact similarities that are sorted; no compiled loops."""
    query_gallery = positives.query_gallery
    counts = Counts(*positives.compared_with_each_other())
    queries, gallery = len(query_gallery.queries), len(query_gallery.gallery)
    if chunk is None:
        most = int(np.diff(positives.starts).max(initial=0))
        # Similarities, a sorted copy, and about four arrays as wide as the largest number of positives.
        chunk = max(1, int(query_gallery.free_memory(memory) / 2) // (8 * (2 * gallery + 4 * most)))
    columns = slice(0, gallery)
    with bar_when_long("ranking") as progress:
        for start in range(0, queries, chunk):
            rows = slice(start, min(start + chunk, queries))
            _add(_count_exactly(positives, rows, columns), counts, positives, rows)
            progress(rows.stop, queries, "")
    return counts


def _count_screened(
    query_gallery: QueryGallery, tile: Tile, thresholds: Thresholds, kernels: tuple[Kernel, ...]
) -> tuple[Counts, ...] | None:
    """Counts for the queries of the rows and, with a second kernel, of the columns; None if too much is undecided."""
    inverse_norms = query_gallery.directions.inverse_norms.numpy()
    rows = side(tile.row_units, inverse_norms[query_gallery.queries[tile.rows]])
    columns = side(tile.column_units, inverse_norms[query_gallery.gallery[tile.columns]])
    similarity = tile.similarity.numpy()
    limit = int(similarity.size * _MAX_EXACT_SHARE)
    tile_counts: tuple[Counts, ...] = ()
    for queries, count in zip((tile.rows, tile.columns), kernels, strict=False):
        own_thresholds = thresholds.of(queries)
        counts = Counts(*np.zeros((2, len(own_thresholds.exact)), dtype=np.int64))
        if count(similarity, rows, columns, own_thresholds, counts, limit) > limit:
            return None
        tile_counts += (counts,)
    return tile_counts


def _count_exactly(positives: Positives, queries: slice, columns: slice) -> Counts:
    """Counts from sorted rows of exact similarities."""
    similarity = positives.query_gallery.exact(queries, columns)
    positives.exclude(similarity, queries, columns, -np.inf)
    starts = positives.starts[queries.start : queries.stop + 1]
    sizes = np.diff(starts)
    is_used = np.arange(sizes.max(initial=0)) < sizes[:, None]
    padded = np.full(is_used.shape, np.inf)
    padded[is_used] = positives.similarities[starts[0] : starts[-1]]
    if is_used.shape[1] <= _FEW_SLOTS:
        at_least, above = (
            _count_by_slot(compare, similarity.numpy(), padded) for compare in (np.greater_equal, np.greater)
        )
        return Counts(above[is_used], (at_least - above)[is_used])
    similarity.numpy().sort(axis=1)
    thresholds = torch.from_numpy(padded)
    at_most = torch.searchsorted(similarity, thresholds, right=True).numpy()[is_used]
    below = torch.searchsorted(similarity, thresholds).numpy()[is_used]
    return Counts(similarity.shape[1] - at_most, at_most - below)


def _count_by_slot(compare: np.ufunc, similarity: Floats, thresholds: Floats) -> Integers:
    """For each row and threshold of it the number of similarities that compare as true."""
    counts = np.empty(thresholds.shape, dtype=np.int64)
    is_counted = np.empty(similarity.shape, dtype=bool)
    for slot in range(thresholds.shape[1]):
        compare(similarity, thresholds[:, slot, None], out=is_counted)
        counts[:, slot] = is_counted.view(np.uint8).sum(axis=1, dtype=np.int32)
    return counts


def _add(new: Counts, counts: Counts, positives: Positives, queries: slice) -> None:
    slots = slice(int(positives.starts[queries.start]), int(positives.starts[queries.stop]))
    counts.above[slots] += new.above
    counts.tied[slots] += new.tied
