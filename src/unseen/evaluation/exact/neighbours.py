"""The nearest neighbours of some queries, in one total order, for people to look at."""

from typing import NamedTuple

import numpy as np
import torch

from unseen.core.checks import check_count
from unseen.core.console import bar_when_long
from unseen.evaluation.exact.arrays import Booleans, Float32s, Floats, Int32s, Integers
from unseen.evaluation.exact.inputs import Embeddings, Labels, Rows, read_table
from unseen.evaluation.exact.kernels import IS_COMPILED
from unseen.evaluation.exact.threads import run_in_threads
from unseen.evaluation.exact.thresholds import EXCLUDED, error_bound
from unseen.evaluation.exact.tiles import SIDE, QueryGallery, tiles

# For fewer pairs, loading the compiled loops takes longer than it saves.
_FEW_PAIRS = 2**22
_QUERIES_AT_ONCE = 256
_PAIRS_AT_ONCE = 2048


class Neighbours(NamedTuple):
    """Row numbers of the neighbours, nearest first, their cosine similarities, and whether their class is right."""

    indices: Integers
    similarities: Floats
    right: Booleans


class _Nearest(NamedTuple):
    """Positions in the gallery and similarities, nearest first, one row per query."""

    positions: Integers
    similarities: Floats


def nearest_neighbours(
    embeddings: Embeddings,
    labels: Labels,
    queries: Rows | None = None,
    k: int = 8,
    *,
    gallery: Rows | None = None,
    memory: int = 500,
) -> Neighbours:
    """The k most similar items of each query; equally similar items are ordered by row number.

    ``memory`` is in MB beyond the embeddings and the result.

    Shape:  q queries -> three arrays (q, k); fewer columns where the gallery has fewer than k others
    Raises: BatchError for embeddings, labels or rows that do not fit together
    """
    check_count("nearest_neighbours", "k", k)
    check_count("nearest_neighbours", "memory", memory)
    table = read_table(embeddings, labels, queries, gallery, memory=memory)
    # Ascending row numbers, so that the first of equal similarities is the one with the smaller number.
    query_gallery = QueryGallery.from_table(table, table.queries, np.sort(table.gallery))
    k = min(k, int(query_gallery.candidates().min()))
    is_large = len(table.queries) * len(table.gallery) >= _FEW_PAIRS
    if IS_COMPILED and is_large and k > 0 and torch.get_float32_matmul_precision() == "highest":
        nearest = nearest_by_screening(query_gallery, k, memory=memory)
    else:
        nearest = nearest_by_sorting(query_gallery, k, np.arange(len(table.queries)))
    indices = query_gallery.gallery[nearest.positions]
    right = table.classes[indices] == table.classes[table.queries][:, None]
    return Neighbours(indices, np.clip(nearest.similarities, -1.0, 1.0), right)


def nearest_by_sorting(query_gallery: QueryGallery, k: int, queries: Integers) -> _Nearest:
    """The nearest items of some of the queries, from complete rows of exact similarities."""
    nearest = _Nearest(np.empty((len(queries), k), dtype=np.int64), np.empty((len(queries), k)))
    inverse_norms = query_gallery.directions.inverse_norms.numpy()
    columns = slice(0, len(query_gallery.gallery))
    for start in range(0, len(queries), _QUERIES_AT_ONCE):
        block = query_gallery.select(queries[start : start + _QUERIES_AT_ONCE])
        rows = slice(0, len(block.queries))
        similarity = block.exact(rows, columns)
        similarity *= torch.from_numpy(inverse_norms[block.queries])[:, None]
        block.exclude(similarity, rows, columns, -np.inf)
        for number, row in enumerate(similarity.numpy(), start=start):
            positions = _largest(row, k)
            nearest.positions[number], nearest.similarities[number] = positions, row[positions]
    return nearest


def nearest_by_screening(query_gallery: QueryGallery, k: int, *, memory: float, side: int = SIDE) -> _Nearest:
    """The same from tiles of float32 similarities; exact similarities decide among the candidates that remain."""
    from unseen.evaluation.exact.kernels.screening import Largest, collect_largest

    # An item among the k nearest is at most two errors below the k-th largest float32 similarity; one float32 step more
    # makes up for rounding that bound.
    margin = 2 * error_bound(query_gallery.directions.width, query_gallery.directions.inverse_norms) + 2**-22
    room = 2 * k + 64
    queries_per_pass = max(1, int(memory * 1e6 / 4) // (8 * room))
    parts = []
    queries = np.arange(len(query_gallery.queries))
    done, total = 0, len(queries) * len(query_gallery.gallery)
    with run_in_threads() as run, bar_when_long("searching") as progress:
        for start in range(0, len(queries), queries_per_pass):
            block = query_gallery.select(queries[start : start + queries_per_pass])
            count = len(block.queries)
            largest = Largest(
                np.empty((count, room), dtype=np.float32),
                np.empty((count, room), dtype=np.int32),
                # Above what is excluded, below every similarity.
                np.full(count, EXCLUDED / 2, dtype=np.float32),
                np.zeros(count, dtype=np.int32),
            )
            for tile in tiles(block, run, memory=memory / 2, side=side):
                block.exclude(tile.similarity, tile.rows, tile.columns, EXCLUDED)
                similarity, first = tile.similarity.numpy(), (tile.rows.start, tile.columns.start)

                def collect(
                    low: int, high: int, similarity: Float32s = similarity, first: tuple[int, int] = first
                ) -> None:
                    collect_largest(similarity, first, largest, k, margin, (low, high))  # noqa: B023 (runs at once)

                run(collect, len(similarity))
                done += similarity.size
                progress(done, total, "")
            parts.append(_decide(block, k, largest.values, largest.positions, largest.filled, margin))
    return _Nearest(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def _decide(
    query_gallery: QueryGallery, k: int, values: Float32s, positions: Int32s, filled: Int32s, margin: float
) -> _Nearest:
    """The nearest of the collected items, by exact similarity and then by position."""
    nearest = _Nearest(np.empty((len(filled), k), dtype=np.int64), np.empty((len(filled), k)))
    # Too many items of nearly one similarity to collect: copies, or a collapsed model.
    crowded, clear = np.flatnonzero(filled < 0), np.flatnonzero(filled >= 0)
    if len(crowded):
        for target, source in zip(nearest, nearest_by_sorting(query_gallery, k, crowded), strict=True):
            target[crowded] = source
    values[np.arange(values.shape[1]) >= filled[:, None]] = EXCLUDED
    last = values.shape[1] - k
    is_near = values >= np.partition(values, last, axis=1)[:, last, None] - margin
    is_near[crowded] = False
    rows, items = np.nonzero(is_near)[0], positions[is_near].astype(np.int64)
    similarity = _similarities(query_gallery, rows, items)
    order = np.lexsort((items, -similarity, rows))
    firsts = np.searchsorted(rows, clear)
    chosen = order[firsts[:, None] + np.arange(k)]
    nearest.positions[clear], nearest.similarities[clear] = items[chosen], similarity[chosen]
    return nearest


def _similarities(query_gallery: QueryGallery, rows: Integers, items: Integers) -> Floats:
    """Exact cosine similarities of pairs of a query and an item."""
    directions = query_gallery.directions
    inverse_norms = directions.inverse_norms.numpy()
    similarities = np.empty(len(rows))
    for start in range(0, len(rows), _PAIRS_AT_ONCE):
        part = slice(start, start + _PAIRS_AT_ONCE)
        queries, answers = query_gallery.queries[rows[part]], query_gallery.gallery[items[part]]
        products = (directions.integers(queries) * directions.integers(answers)).sum(dim=1).numpy()
        similarities[part] = products * inverse_norms[answers] * inverse_norms[queries]
    return similarities


def _largest(values: Floats, k: int) -> Integers:
    """Positions of the k largest values, ordered by value and then by position."""
    if k == 0:
        return np.empty(0, dtype=np.int64)
    threshold = np.partition(values, len(values) - k)[len(values) - k]
    candidates = np.flatnonzero(values >= threshold)
    return candidates[np.argsort(-values[candidates], kind="stable")[:k]]
