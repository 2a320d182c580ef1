"""Histograms of the similarities of all pairs, in one pass of float32 products over square tiles.

Rows are taken in the order of their content and tiles have one size, each multiplied by one thread. Neither the order
of the rows nor the number of threads then changes a product, and so not a count. A similarity in float32 is off by
about 1e-7, a bin is 3e-5 wide: told apart by groups, one pair in some hundred lies at an edge and may change its bin.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from unseen.evaluation.exact.compiled import compiled
from unseen.evaluation.exact.directions import Directions
from unseen.evaluation.exact.progress import bar_when_long
from unseen.evaluation.exact.row_hashes import Keys, order_of, row_keys

Numbers = NDArray[np.int64]
Counts = NDArray[np.uint32]

# Bins are as wide as 2^-15 and centred on its multiples, so that 1, 0 and -1 are centres.
BINS = 2**16 + 1
_PER_UNIT = 2.0**15
_TILE = 1024
_STRIP = 8


class Histograms(NamedTuple):
    """How many pairs of each bin share a class, and how many do not.

    Pairs are told apart by the groups that their rows lie in. A class lies in one group, so do its pairs.

    Shape:  G groups -> ``positives`` (G, bins); ``negatives`` (G, G, bins), of groups g, h at g <= h
    """

    positives: Numbers
    negatives: Numbers


def centres() -> NDArray[np.float64]:
    """The similarity in the middle of each bin, ascending."""
    return np.arange(BINS) / _PER_UNIT - 1.0


def pair_histograms(
    directions: Directions,
    classes: Numbers,
    *,
    queries: Numbers | None = None,
    gallery: Numbers | None = None,
    apart: Numbers | None = None,
    groups: Numbers | None = None,
    keys: Keys | None = None,
) -> Histograms:
    """The histograms of all unordered pairs, or of all pairs of a query and another row of the gallery.

    =================  ================================================================================
    queries, gallery   row numbers; both or none
    apart              a number for each row; two rows of one number are no pair
    groups             a number 0, 1, ... for each row, one for all rows of a class; all 0 by default
    keys               `row_keys` of the directions, if they are at hand
    =================  ================================================================================
    """
    keys = row_keys(directions) if keys is None else keys
    groups = np.zeros(len(classes), dtype=np.int64) if groups is None else groups
    count = int(groups.max(initial=0)) + 1
    found = Histograms(np.zeros((count, BINS), dtype=np.int64), np.zeros((count, count, BINS), dtype=np.int64))
    is_square = queries is None or gallery is None
    every = np.arange(len(classes))
    rows = _tiles(every if queries is None else queries, keys, groups)
    columns = rows if is_square else _tiles(every if gallery is None else gallery, keys, groups)
    lock = threading.Lock()

    def count_column(place: int, strip: range, sources: list[NDArray[np.float32]]) -> None:
        column = columns[place]
        target = directions.single(column).numpy()
        by_class = np.argsort(classes[column])
        by_apart = by_class if apart is None else np.argsort(apart[column])
        memory = np.empty(_TILE * _TILE, dtype=np.float32)
        for number, source in zip(strip, sources, strict=True):
            if is_square and number > place:
                break
            row = rows[number]
            similarity = memory[: len(row) * len(column)].reshape(len(row), len(column))
            np.matmul(source, target.T, out=similarity)
            is_diagonal = is_square and number == place
            positives, negatives = np.zeros((2, BINS), dtype=np.uint32)
            _count_all(similarity, is_diagonal, negatives)
            _move_positives(similarity, is_diagonal, row, column, classes, by_class, positives, negatives)
            if apart is not None:
                _remove_apart(similarity, is_diagonal, row, column, classes, apart, by_apart, positives, negatives)
            low, high = sorted((int(groups[row[0]]), int(groups[column[0]])))
            with lock:
                found.positives[low] += positives
                found.negatives[low, high] += negatives

    strips = [range(start, min(start + _STRIP, len(rows))) for start in range(0, len(rows), _STRIP)]
    work = [range(strip.start if is_square else 0, len(columns)) for strip in strips]
    with (
        threadpool_limits(1, user_api="blas"),
        ThreadPoolExecutor(torch.get_num_threads()) as pool,
        bar_when_long("pairs", sum(map(len, work))) as progress,
    ):
        for strip, places in zip(strips, work, strict=True):
            sources = [directions.single(rows[number]).numpy() for number in strip]
            # Taking each result raises what went wrong; leaving early cancels what has not begun.
            for _ in pool.map(lambda place, strip=strip, sources=sources: count_column(place, strip, sources), places):
                progress(1)
    return found


def _tiles(rows: Numbers, keys: Keys, groups: Numbers) -> list[Numbers]:
    """The rows in tiles that each lie in one group."""
    ordered = rows[order_of(keys[rows], groups[rows])]
    borders = np.flatnonzero(np.diff(groups[ordered])) + 1
    return [part[start : start + _TILE] for part in np.split(ordered, borders) for start in range(0, len(part), _TILE)]


@compiled
def _count_all(similarity: NDArray[np.float32], is_diagonal: bool, counts: Counts) -> None:
    """Count all pairs of a tile; on the diagonal each pair once."""
    one = np.uint32(1)
    for i in range(similarity.shape[0]):
        for j in range(i + 1 if is_diagonal else 0, similarity.shape[1]):
            # Unit vectors: the similarity exceeds 1 by less than half a bin.
            counts[np.uint32(similarity[i, j] * 32768.0 + 32768.5)] += one


@compiled
def _move_positives(
    similarity: NDArray[np.float32],
    is_diagonal: bool,
    rows: Numbers,
    columns: Numbers,
    classes: Numbers,
    by_class: Numbers,
    positives: Counts,
    negatives: Counts,
) -> None:
    """Take the few pairs of one class out of the negatives; a row with itself is no pair."""
    one = np.uint32(1)
    found = classes[columns[by_class]]
    for i in range(similarity.shape[0]):
        own = classes[rows[i]]
        for k in range(np.searchsorted(found, own), len(found)):
            j = by_class[k]
            if found[k] != own:
                break
            if is_diagonal and j <= i:
                continue
            place = np.uint32(similarity[i, j] * 32768.0 + 32768.5)
            negatives[place] -= one
            if columns[j] != rows[i]:
                positives[place] += one


@compiled
def _remove_apart(
    similarity: NDArray[np.float32],
    is_diagonal: bool,
    rows: Numbers,
    columns: Numbers,
    classes: Numbers,
    apart: Numbers,
    by_apart: Numbers,
    positives: Counts,
    negatives: Counts,
) -> None:
    """Take the pairs that are kept apart out of the counts."""
    one = np.uint32(1)
    found = apart[columns[by_apart]]
    for i in range(similarity.shape[0]):
        own = apart[rows[i]]
        for k in range(np.searchsorted(found, own), len(found)):
            j = by_apart[k]
            if found[k] != own:
                break
            if columns[j] == rows[i] or (is_diagonal and j <= i):
                continue
            place = np.uint32(similarity[i, j] * 32768.0 + 32768.5)
            if classes[columns[j]] == classes[rows[i]]:
                positives[place] -= one
            else:
                negatives[place] -= one
