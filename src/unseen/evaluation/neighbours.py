"""The nearest neighbours of some queries, in one total order, for people to look at."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from unseen.core.checks import check_count
from unseen.evaluation.inputs import Embeddings, Labels, Rows, read_table

_QUERIES_AT_ONCE = 256


class Neighbours(NamedTuple):
    """Row numbers of the neighbours, nearest first, their cosine similarities, and whether their class is right."""

    indices: NDArray[np.int64]
    similarities: NDArray[np.float64]
    right: NDArray[np.bool_]


def nearest_neighbours(
    embeddings: Embeddings,
    labels: Labels,
    queries: Rows | None = None,
    k: int = 8,
    *,
    gallery: Rows | None = None,
) -> Neighbours:
    """The k most similar items of each query; of equally similar ones those with the smaller row number first.

    Shape:  q queries -> three arrays (q, k); fewer columns where the gallery has fewer than k others
    Raises: BatchError for embeddings, labels or rows that do not fit
    """
    check_count("nearest_neighbours", "k", k)
    table = read_table(embeddings, labels, queries, gallery)
    # Ascending row numbers, so that the first of equal similarities is the one with the smaller number.
    rows = np.sort(table.gallery)
    places = np.full(len(table.classes), -1)
    places[rows] = np.arange(len(rows))
    own = places[table.queries]
    k = min(k, len(rows) - int((own >= 0).any()))
    items = table.directions.take(rows)
    indices = np.empty((len(own), k), dtype=np.int64)
    similarities = np.empty((len(own), k))
    for start in range(0, len(own), _QUERIES_AT_ONCE):
        block = slice(start, start + _QUERIES_AT_ONCE)
        asked = table.directions.take(table.queries[block])
        similarity: torch.Tensor = asked.units @ items.units.T * items.inverse_norms * asked.inverse_norms[:, None]
        for position, row in enumerate(similarity.numpy(), start=start):
            if own[position] >= 0:
                row[own[position]] = -np.inf
            nearest = _largest(row, k)
            indices[position], similarities[position] = rows[nearest], row[nearest]
    right = table.classes[indices] == table.classes[table.queries][:, None]
    return Neighbours(indices, np.clip(similarities, -1.0, 1.0), right)


def _largest(values: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """Places of the k largest values: by value, then by place."""
    if k == 0:
        return np.empty(0, dtype=np.int64)
    threshold = np.partition(values, len(values) - k)[len(values) - k]
    candidates = np.flatnonzero(values >= threshold)
    return candidates[np.argsort(-values[candidates], kind="stable")[:k]]
