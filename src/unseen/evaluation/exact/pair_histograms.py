"""Histograms of the similarities of all pairs, in one pass of float32 products over square tiles.

Rows are taken in the order of their content and tiles have a fixed size, each multiplied by one thread. Hence neither
the order of the rows nor the number of threads changes a product, or a count. A float32 similarity is off by about
1e-7 and a bin is 3e-5 wide: about one pair in a hundred lies at an edge, where another division into tiles (by class
groups) may put it into the next bin.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from unseen.core.console import bar_when_long
from unseen.evaluation.exact.arrays import Float32s, Floats, Integers
from unseen.evaluation.exact.inputs import Table
from unseen.evaluation.exact.row_hashes import Keys, order_of, row_keys

# Bins have the width 2^-15 and are centred on its multiples, so that 1, 0 and -1 are centres.
BINS = 2**16 + 1
_PER_UNIT = 2.0**15
_TILE = 1024
_STRIP = 8


class Histograms(NamedTuple):
    """Number of pairs per bin that share a class, and that do not.

    Pairs are counted apart by the class groups of their rows. All rows of a class lie in one class group.

    Shape:  G class groups -> ``positives`` (G, bins); ``negatives`` (G, G, bins), of groups g, h at g <= h
    """

    positives: Integers
    negatives: Integers


def bin_centres() -> Floats:
    """The similarity at the centre of each bin, ascending."""
    return np.arange(BINS) / _PER_UNIT - 1.0


def is_square(table: Table) -> bool:
    """Whether queries and gallery are the same rows, so that a pair of rows is met twice."""
    return np.array_equal(np.sort(table.queries), np.sort(table.gallery))


def pair_histograms(table: Table, *, class_groups: Integers | None = None, keys: Keys | None = None) -> Histograms:
    """Histograms over the pairs of a query and another gallery row; unordered pairs where both are the same rows.

    Two rows of one group of the table are not a pair. ``class_groups`` is a number 0, 1, ... for each class, by which
    pairs are counted apart, all 0 by default; ``keys`` are the `row_keys` of the directions, if already computed.
    """
    from unseen.evaluation.exact.kernels.pair_bins import PairTile, count_all, move_positives, remove_same_group

    directions, classes = table.directions, table.classes
    keys = row_keys(directions) if keys is None else keys
    group_of = np.zeros(len(classes), dtype=np.int64) if class_groups is None else class_groups[classes]
    count = int(group_of.max(initial=0)) + 1
    histograms = Histograms(np.zeros((count, BINS), dtype=np.int64), np.zeros((count, count, BINS), dtype=np.int64))
    is_symmetric = is_square(table)
    rows = _tiles(table.queries, keys, group_of)
    columns = rows if is_symmetric else _tiles(table.gallery, keys, group_of)
    lock = threading.Lock()

    def count_column(column_number: int, strip: range, sources: list[Float32s]) -> None:
        column = columns[column_number]
        target = directions.float32(column).numpy()
        by_class = np.argsort(classes[column])
        by_group = by_class if table.groups is None else np.argsort(table.groups[column])
        buffer = np.empty(_TILE * _TILE, dtype=np.float32)
        for row_number, source in zip(strip, sources, strict=True):
            if is_symmetric and row_number > column_number:
                break
            row = rows[row_number]
            similarity = buffer[: len(row) * len(column)].reshape(len(row), len(column))
            np.matmul(source, target.T, out=similarity)
            tile = PairTile(similarity, row, column, classes, is_symmetric and row_number == column_number)
            positives, negatives = np.zeros((2, BINS), dtype=np.uint32)
            count_all(tile, negatives)
            move_positives(tile, by_class, positives, negatives)
            if table.groups is not None:
                remove_same_group(tile, table.groups, by_group, positives, negatives)
            low, high = sorted((int(group_of[row[0]]), int(group_of[column[0]])))
            with lock:
                histograms.positives[low] += positives
                histograms.negatives[low, high] += negatives

    strips = [range(start, min(start + _STRIP, len(rows))) for start in range(0, len(rows), _STRIP)]
    work = [range(strip.start if is_symmetric else 0, len(columns)) for strip in strips]
    done, total = 0, sum(map(len, work))
    with (
        threadpool_limits(1, user_api="blas"),
        ThreadPoolExecutor(torch.get_num_threads()) as pool,
        bar_when_long("pairs") as progress,
    ):
        for strip, numbers in zip(strips, work, strict=True):
            sources = [directions.float32(rows[number]).numpy() for number in strip]
            # Taking each result raises its error; leaving early cancels what has not begun.
            for _ in pool.map(partial(count_column, strip=strip, sources=sources), numbers):
                done += 1
                progress(done, total, "")
    return histograms


def _tiles(rows: Integers, keys: Keys, group_of: Integers) -> list[Integers]:
    """The rows in tiles that each lie in one class group."""
    ordered = rows[order_of(keys[rows], group_of[rows])]
    borders = np.flatnonzero(np.diff(group_of[ordered])) + 1
    return [part[start : start + _TILE] for part in np.split(ordered, borders) for start in range(0, len(part), _TILE)]
