"""Counting against thresholds over a whole comparison: tiles screened in float32, or exact rows that are sorted."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unseen.evaluation.counting import (
    EXCLUDED,
    Counts,
    Side,
    Thresholds,
    error_bound,
    with_margins,
)
from unseen.evaluation.directions import Units
from unseen.evaluation.positives import Positives
from unseen.evaluation.progress import bar_when_long
from unseen.evaluation.tiles import SIDE, Comparison, Run, Tile, tiles, workers

# With more thresholds a query than this, a table of bins is faster than one comparison a threshold.
_FEW_THRESHOLDS = 32
# A tile with a larger share of exact decisions (copies, collapsed models) is faster in float64.
_UNSURE_SHARE = 1 / 8


def count_by_screening(
    positives: Positives, *, memory: float, side: int | None = None, few: int = _FEW_THRESHOLDS
) -> Counts:
    """Items above and at each positive; float32 products, and exact ones where those cannot tell."""
    comparison = positives.comparison
    # Of few tiles many lie on the diagonal, where each product is done twice: smaller ones waste less.
    side = side or (SIDE if len(comparison.queries) > 4 * SIDE else SIDE // 2)
    directions = comparison.directions
    margin = error_bound(directions.width, directions.inverse_norms)
    thresholds = with_margins(positives.starts, positives.similarities, margin)
    # Positives are compared with each other already; tiles are left with the negatives.
    counts = Counts(*positives.among_themselves())
    is_symmetric = comparison.is_symmetric
    count = _count_few if len(thresholds.exact) <= few * len(comparison.queries) else _count_many
    total = len(comparison.queries) * len(comparison.gallery)
    with workers() as run, bar_when_long("ranking", total) as tell:
        for tile in tiles(comparison, run, memory=memory, side=side, is_symmetric=is_symmetric):
            positives.exclude(tile.similarity, tile.rows, tile.columns, EXCLUDED)
            is_mirrored = is_symmetric and tile.rows != tile.columns
            queries = (tile.rows, tile.columns) if is_mirrored else (tile.rows,)
            before = [_saved(counts, thresholds, part) for part in queries]
            if not count(comparison, tile, thresholds, counts, run, is_mirrored):
                for saved, part in zip(before, queries, strict=True):
                    _restore(counts, thresholds, part, saved)
                _count_exactly(positives, tile, counts, is_mirrored)
            tell(tile.similarity.numel() * len(queries))
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
    with bar_when_long("ranking", queries * gallery) as tell:
        for start in range(0, queries, chunk):
            rows = slice(start, min(start + chunk, queries))
            similarity = comparison.exact(rows, columns)
            positives.exclude(similarity, rows, columns, -np.inf)
            _count_sorted(similarity, start, positives, counts)
            tell(similarity.numel())
    return counts


def _count_few(
    comparison: Comparison, tile: Tile, thresholds: Thresholds, counts: Counts, run: Run, is_mirrored: bool
) -> bool:
    from unseen.evaluation.kernels import count_columns, count_rows

    rows, columns = _sides(comparison, tile)
    similarity = tile.similarity.numpy()
    bits = similarity.view(np.int32)
    limit = int(similarity.size * _UNSURE_SHARE / torch.get_num_threads())
    decided = run(lambda part: count_rows(similarity, bits, part, rows, columns, thresholds, counts, limit), len(bits))
    if is_mirrored and decided <= limit:
        decided += run(
            lambda part: count_columns(similarity, part, rows, columns, thresholds, counts, limit), similarity.shape[1]
        )
    return decided <= limit


def _count_many(
    comparison: Comparison, tile: Tile, thresholds: Thresholds, counts: Counts, run: Run, is_mirrored: bool
) -> bool:
    from unseen.evaluation.kernels import count_rows_by_bins

    rows, columns = _sides(comparison, tile)
    similarity = tile.similarity.numpy()
    limit = int(similarity.size * _UNSURE_SHARE / torch.get_num_threads())
    decided = run(
        lambda part: count_rows_by_bins(similarity, part, rows, columns, thresholds, counts, limit), len(similarity)
    )
    if is_mirrored and decided <= limit:
        turned = np.empty(similarity.shape[::-1], dtype=np.float32)

        def turn_and_count(part: tuple[int, int]) -> int:
            torch.from_numpy(turned[slice(*part)]).copy_(tile.similarity[:, slice(*part)].T)
            return count_rows_by_bins(turned, part, columns, rows, thresholds, counts, limit)

        decided += run(turn_and_count, len(turned))
    return decided <= limit


def _count_exactly(positives: Positives, tile: Tile, counts: Counts, is_mirrored: bool) -> None:
    """Count a tile from exact similarities."""
    pairs = [(tile.rows, tile.columns)] + ([(tile.columns, tile.rows)] if is_mirrored else [])
    for rows, columns in pairs:
        similarity = positives.comparison.exact(rows, columns)
        positives.exclude(similarity, rows, columns, -np.inf)
        _count_sorted(similarity, rows.start, positives, counts)


def _count_sorted(similarity: Tensor, first: int, positives: Positives, counts: Counts) -> None:
    """Count rows of exact similarities, which are sorted in place; ``first`` is the number of the first query."""
    starts = positives.starts[first : first + len(similarity) + 1]
    sizes = np.diff(starts)
    steps = np.arange(sizes.max(initial=0))
    is_one = steps < sizes[:, None]
    slots = (starts[:-1, None] + steps)[is_one]
    wanted = np.full(is_one.shape, np.inf)
    wanted[is_one] = positives.similarities[slots]
    similarity.numpy().sort(axis=1)
    values = torch.from_numpy(wanted)
    at_most = torch.searchsorted(similarity, values, right=True).numpy()[is_one]
    counts.above[slots] += similarity.shape[1] - at_most
    counts.tied[slots] += at_most - torch.searchsorted(similarity, values).numpy()[is_one]


def _sides(comparison: Comparison, tile: Tile) -> tuple[Side, Side]:
    inverse_norms = comparison.directions.inverse_norms.numpy()

    def side(part: slice, units: Units, numbers: NDArray[np.int64]) -> Side:
        return Side(part.start, units.single.numpy(), units.rest_of, units.rest, inverse_norms[numbers[part]])

    return (
        side(tile.rows, tile.row_units, comparison.queries),
        side(tile.columns, tile.column_units, comparison.gallery),
    )


def _slots(thresholds: Thresholds, queries: slice) -> slice:
    return slice(int(thresholds.starts[queries.start]), int(thresholds.starts[queries.stop]))


def _saved(counts: Counts, thresholds: Thresholds, queries: slice) -> Counts:
    slots = _slots(thresholds, queries)
    return Counts(counts.above[slots].copy(), counts.tied[slots].copy())


def _restore(counts: Counts, thresholds: Thresholds, queries: slice, saved: Counts) -> None:
    slots = _slots(thresholds, queries)
    counts.above[slots], counts.tied[slots] = saved
