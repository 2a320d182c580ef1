"""The nearest neighbours of some queries, in one total order, for people to look at."""

from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from unseen.core.checks import check_count
from unseen.evaluation.exact.compiled import IS_COMPILED
from unseen.evaluation.exact.inputs import Embeddings, Labels, Rows, read_table
from unseen.evaluation.exact.progress import bar_when_long
from unseen.evaluation.exact.threads import workers
from unseen.evaluation.exact.thresholds import EXCLUDED, error_bound
from unseen.evaluation.exact.tiles import SIDE, Comparison, compare, tiles

# For so few pairs, loading the compiled loops takes longer than the pairs.
_FEW_PAIRS = 2**22
_QUERIES_AT_ONCE = 256
_PAIRS_AT_ONCE = 2048


class Neighbours(NamedTuple):
    """Row numbers of the neighbours, nearest first, their cosine similarities, and whether their class is right."""

    indices: NDArray[np.int64]
    similarities: NDArray[np.float64]
    right: NDArray[np.bool_]


class _Nearest(NamedTuple):
    """Places in the gallery and similarities, nearest first, one row a query."""

    places: NDArray[np.int64]
    similarities: NDArray[np.float64]


def nearest_neighbours(
    embeddings: Embeddings,
    labels: Labels,
    queries: Rows | None = None,
    k: int = 8,
    *,
    gallery: Rows | None = None,
    memory: int = 500,
) -> Neighbours:
    """The k most similar items of each query; of equally similar ones those with the smaller row number first.

    ``memory`` is in MB beyond the embeddings and the result.

    Shape:  q queries -> three arrays (q, k); fewer columns where the gallery has fewer than k others
    Raises: BatchError for embeddings, labels or rows that do not fit
    """
    check_count("nearest_neighbours", "k", k)
    check_count("nearest_neighbours", "memory", memory)
    table = read_table(embeddings, labels, queries, gallery, memory=memory)
    # Ascending row numbers, so that the first of equal similarities is the one with the smaller number.
    comparison = compare(table, table.queries, np.sort(table.gallery))
    k = min(k, int(comparison.candidates().min()))
    is_large = len(table.queries) * len(table.gallery) >= _FEW_PAIRS
    if IS_COMPILED and is_large and k > 0 and torch.get_float32_matmul_precision() == "highest":
        found = nearest_by_screening(comparison, k, memory=memory)
    else:
        found = nearest_by_sorting(comparison, k, np.arange(len(table.queries)))
    indices = comparison.gallery[found.places]
    right = table.classes[indices] == table.classes[table.queries][:, None]
    return Neighbours(indices, np.clip(found.similarities, -1.0, 1.0), right)


def nearest_by_sorting(comparison: Comparison, k: int, queries: NDArray[np.int64]) -> _Nearest:
    """The nearest items of some of the queries from whole rows of exact similarities."""
    places = np.empty((len(queries), k), dtype=np.int64)
    similarities = np.empty((len(queries), k))
    inverse_norms = comparison.directions.inverse_norms.numpy()
    every = slice(0, len(comparison.gallery))
    for start in range(0, len(queries), _QUERIES_AT_ONCE):
        block = queries[start : start + _QUERIES_AT_ONCE]
        few = comparison.only(block)
        similarity = few.exact(slice(0, len(block)), every)
        similarity *= torch.from_numpy(inverse_norms[few.queries])[:, None]
        few.exclude(similarity, slice(0, len(block)), every, -np.inf)
        for position, row in enumerate(similarity.numpy(), start=start):
            nearest = _largest(row, k)
            places[position], similarities[position] = nearest, row[nearest]
    return _Nearest(places, similarities)


def nearest_by_screening(comparison: Comparison, k: int, *, memory: float, side: int = SIDE) -> _Nearest:
    """The same from tiles of float32 similarities: exact ones decide among those that can be among the nearest."""
    from unseen.evaluation.exact.kernels import collect_largest

    # An item among the k nearest is at most two errors below the k-th largest float32 similarity; one float32 step more
    # makes up for rounding that bound.
    margin = 2 * error_bound(comparison.directions.width, comparison.directions.inverse_norms) + 2**-22
    room = 2 * k + 64
    at_once = max(1, int(memory * 1e6 / 4) // (8 * room))
    parts = []
    queries = np.arange(len(comparison.queries))
    with workers() as run, bar_when_long("searching", len(queries) * len(comparison.gallery)) as progress:
        for start in range(0, len(queries), at_once):
            few = comparison.only(queries[start : start + at_once])
            count = len(few.queries)
            values, places = np.empty((count, room), dtype=np.float32), np.empty((count, room), dtype=np.int32)
            # Above what is excluded, below every similarity.
            floors, filled = np.full(count, EXCLUDED / 2, dtype=np.float32), np.zeros(count, dtype=np.int32)
            for tile in tiles(few, run, memory=memory / 2, side=side):
                few.exclude(tile.similarity, tile.rows, tile.columns, EXCLUDED)
                similarity, first = tile.similarity.numpy(), (tile.rows.start, tile.columns.start)
                keep = partial(collect_largest, similarity, first, (values, places, floors, filled), k, margin)
                run(keep, len(similarity))
                progress(similarity.size)
            parts.append(_decide(few, k, values, places, filled, margin))
    return _Nearest(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def _decide(
    comparison: Comparison,
    k: int,
    values: NDArray[np.float32],
    places: NDArray[np.int32],
    filled: NDArray[np.int32],
    margin: float,
) -> _Nearest:
    """The nearest of the items that were kept, by exact similarity and then by place."""
    found = _Nearest(np.empty((len(filled), k), dtype=np.int64), np.empty((len(filled), k)))
    # Too many items of nearly one similarity to keep: copies, or a collapsed model.
    crowded, clear = np.flatnonzero(filled < 0), np.flatnonzero(filled >= 0)
    if len(crowded):
        for target, source in zip(found, nearest_by_sorting(comparison, k, crowded), strict=True):
            target[crowded] = source
    values[np.arange(values.shape[1]) >= filled[:, None]] = EXCLUDED
    last = values.shape[1] - k
    is_near = values >= np.partition(values, last, axis=1)[:, last, None] - margin
    is_near[crowded] = False
    rows, items = np.nonzero(is_near)[0], places[is_near].astype(np.int64)
    similarity = _similarities(comparison, rows, items)
    order = np.lexsort((items, -similarity, rows))
    firsts = np.searchsorted(rows, clear)
    chosen = order[firsts[:, None] + np.arange(k)]
    found.places[clear], found.similarities[clear] = items[chosen], similarity[chosen]
    return found


def _similarities(comparison: Comparison, rows: NDArray[np.int64], items: NDArray[np.int64]) -> NDArray[np.float64]:
    """Exact cosine similarities of pairs of a query and an item."""
    directions = comparison.directions
    found = np.empty(len(rows))
    for start in range(0, len(rows), _PAIRS_AT_ONCE):
        pairs = slice(start, start + _PAIRS_AT_ONCE)
        asked, answers = comparison.queries[rows[pairs]], comparison.gallery[items[pairs]]
        products = (directions.whole(asked) * directions.whole(answers)).sum(dim=1).numpy()
        inverse_norms = directions.inverse_norms.numpy()
        found[pairs] = products * inverse_norms[answers] * inverse_norms[asked]
    return found


def _largest(values: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """Places of the k largest values: by value, then by place."""
    if k == 0:
        return np.empty(0, dtype=np.int64)
    threshold = np.partition(values, len(values) - k)[len(values) - k]
    candidates = np.flatnonzero(values >= threshold)
    return candidates[np.argsort(-values[candidates], kind="stable")[:k]]
