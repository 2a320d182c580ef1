"""Lloyd's iterations in whole numbers at the speed of float32, computing only what the last iteration changed.

Points and centroids are whole numbers (`directions`), so which centroid is nearest has one exact answer. It is found in
float32 wherever the bound on float32's error allows no doubt, and in exact float64 elsewhere; equally near centroids go
by their number. Hence the clusters are those of plain Lloyd on any machine, with any block size and number of threads.

Most centroids soon stand still. A point then need only be compared with those that moved: against all others its own
centroid has won before, or the bound kept for the second best shows that none of them can win now.
"""

import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from torch import Tensor

from unseen.evaluation.exact.directions import SCALE, Directions
from unseen.evaluation.exact.threads import Run, workers

Whole: TypeAlias = NDArray[np.int64]
Single: TypeAlias = NDArray[np.float32]
Progress: TypeAlias = Callable[[int, int], None]

# Products of this size run near the peak of a processor, and their result stays in its cache until it is read.
_POINTS_AT_ONCE = 512
_CENTROIDS_AT_ONCE = 2048
# Rows in float64 that stay in the cache from one step to the next.
_ROWS_AT_ONCE = 256
# With more moved centroids than this share, comparing with all of them renews every bound for little more.
_NEARLY_ALL = 0.8


class Clusters(NamedTuple):
    """The cluster of each point, and the mean squared distance of the points to their centroids."""

    assignment: Whole
    inertia: float


class _Centroids:
    """Centroids as whole numbers in float64, with the float32 copies that products are made of."""

    def __init__(self, whole: Tensor) -> None:
        self.whole = torch.empty_like(whole)
        self.single = torch.empty(whole.shape, dtype=torch.float32)
        self.squares = np.empty(len(whole), dtype=np.int64)
        self.half_squares = torch.empty(len(whole), dtype=torch.float32)
        for part in _blocks(len(whole), _ROWS_AT_ONCE):
            self.place(np.arange(part.start, part.stop), whole[part])

    def __len__(self) -> int:
        return len(self.whole)

    def place(self, numbers: Whole, whole: Tensor) -> None:
        """Put some of the centroids elsewhere."""
        index = torch.from_numpy(numbers)
        squares = (whole * whole).sum(dim=1)
        self.whole[index] = whole
        self.single[index] = (whole / SCALE).to(torch.float32)
        self.squares[numbers] = squares.to(torch.int64).numpy()
        self.half_squares[index] = (squares / (2 * SCALE**2)).to(torch.float32)


class _Nearest(NamedTuple):
    """For each point its centroid, the bracket of that one, and a bound on the brackets of all others.

    |x - c|^2 = |x|^2 - 2 (x.c - |c|^2 / 2): the nearest centroid has the largest bracket. Brackets here are off by at
    most the bound of `_error`; that of every other centroid is below ``rival`` plus that bound.
    """

    own: Whole
    value: Single
    rival: Single


def lloyd(
    directions: Directions,
    start: Tensor,
    *,
    iterations: int,
    ranks: Whole | None = None,
    memory: int = 64,
    progress: Progress | None = None,
) -> Clusters:
    """Lloyd's algorithm: points go to their nearest centroid, centroids to the mean of their points, rounded.

    A centroid without points takes the farthest point that is not the last of its cluster, of equally far ones the
    first by ``ranks`` (by row without them). It stops early when no centroid moves. ``memory`` in MB bounds the
    products at hand; beyond it there are a few copies of the centroids. ``progress`` gets the iterations done and
    in all.

    Shape:  n directions of width d and start (k, d), whole numbers in float64 -> a cluster in 0 ... k - 1 for each
    """
    # NumPy's products: for a few hundred centroids they are faster than torch's.
    with workers() as run, threadpool_limits(1, user_api="blas"):
        return _iterate(directions, start, iterations, ranks, memory, progress, run)


def _iterate(
    directions: Directions,
    start: Tensor,
    iterations: int,
    ranks: Whole | None,
    memory: int,
    progress: Progress | None,
    run: Run,
) -> Clusters:
    count = len(directions)
    centroids = _Centroids(start)
    nearest = _Nearest(np.zeros(count, dtype=np.int64), np.zeros(count, np.float32), np.zeros(count, np.float32))
    _assign(directions, centroids, nearest, np.arange(len(centroids)), memory, run)
    before = np.full(count, -1, dtype=np.int64)
    sums, counts = torch.zeros_like(centroids.whole), np.zeros(len(centroids), dtype=np.int64)
    for iteration in range(iterations):
        if progress is not None:
            progress(iteration, iterations)
        _fill_empty(directions, centroids, nearest, np.arange(count) if ranks is None else ranks, run)
        touched = _move_members(directions, before, nearest.own, sums, counts)
        moved = _to_means(centroids, sums, counts, touched)
        if len(moved) == 0:
            break
        _assign(directions, centroids, nearest, moved, memory, run)
    if progress is not None:
        progress(iterations, iterations)
    # Distances are below 2^55; their sum may need more than 64 digits, which Python's whole numbers have.
    total = sum(_squared_distances(directions, centroids, nearest.own, run).tolist())
    return Clusters(nearest.own, total / count / SCALE**2)


def _error(width: int) -> float:
    """A bound on the error of a bracket in float32, for unit vectors and centroids no longer than those.

    Let u = 2^-24 and g(n) = n u / (1 - n u). A sum of d products is off by at most g(d) |x| |c|, in any order of
    summation, with or without fused steps; rounding x and c to float32 makes it g(d + 2), subtracting |c|^2 / 2, itself
    rounded, g(d + 3) |x| |c| + g(2) |c|^2 / 2. Lengths exceed 1 by at most sqrt(d) 2^-27, from the rounding to whole
    numbers. All of it is below g(d + 5) for any width in use; the rest of g(d + 8) covers the comparisons themselves.
    """
    if torch.get_float32_matmul_precision() != "highest":
        return math.inf  # the user allowed products with fewer digits: all is decided in float64
    steps = (width + 8) * 2.0**-24
    return steps / (1 - steps)


def _assign(
    directions: Directions, centroids: _Centroids, nearest: _Nearest, moved: Whole, memory: int, run: Run
) -> None:
    """Find the nearest centroid of each point anew, given which centroids moved since it was last found."""
    if len(moved) > _NEARLY_ALL * len(centroids):
        moved = np.arange(len(centroids))
        nearest.rival[:] = -np.inf
    is_moved = np.zeros(len(centroids), dtype=bool)
    is_moved[moved] = True
    columns = [moved[part] for part in _blocks(len(moved), _CENTROIDS_AT_ONCE)]
    # Copied once: a product with scattered rows would copy them for each block of points.
    tiles = [(part, centroids.single[part].numpy().T, centroids.half_squares[part].numpy()) for part in columns]
    margin = np.float32(2 * _error(directions.width))
    is_doubtful = np.zeros(len(directions), dtype=bool)
    step = max(1, min(_POINTS_AT_ONCE, memory * 2**20 // (16 * (_CENTROIDS_AT_ONCE + directions.width))))

    def assign(part: tuple[int, int]) -> int:
        buffer = np.empty(step * min(_CENTROIDS_AT_ONCE, len(moved)), dtype=np.float32)
        for rows in _blocks(part[1] - part[0], step, first=part[0]):
            best, winner, second = _two_best(directions.single(rows).numpy(), tiles, buffer)
            own, value, rival = nearest.own[rows], nearest.value[rows], nearest.rival[rows]
            own_moved = is_moved[own]
            # The best that a centroid at rest can be: the second best so far, or the point's own where that one rests.
            resting = np.where(own_moved, rival, value)
            stays = ~own_moved & (value - best > margin)
            goes = best - np.maximum(second, resting) > margin
            rival[stays] = np.maximum(rival, best)[stays]
            own[goes], value[goes], rival[goes] = winner[goes], best[goes], np.maximum(second, resting)[goes]
            is_doubtful[rows] = ~(stays | goes)
        return 0

    run(assign, len(directions))
    _assign_exactly(directions, centroids, nearest, np.flatnonzero(is_doubtful), memory)


def _two_best(
    points: Single, tiles: list[tuple[Whole, Single, Single]], buffer: Single
) -> tuple[Single, Whole, Single]:
    """The largest bracket of each point, whose it is, and the second largest."""
    best = np.full(len(points), -np.inf, dtype=np.float32)
    second = best.copy()
    winner = np.zeros(len(points), dtype=np.int64)
    every = np.arange(len(points))
    for numbers, single, half_squares in tiles:
        brackets = buffer[: len(points) * len(numbers)].reshape(len(points), len(numbers))
        np.matmul(points, single, out=brackets)
        brackets -= half_squares
        first = brackets.argmax(axis=1)
        found = brackets[every, first]
        brackets[every, first] = -np.inf
        second = np.maximum(np.maximum(second, brackets.max(axis=1)), np.minimum(best, found))
        winner = np.where(found > best, numbers[first], winner)
        best = np.maximum(best, found)
    return best, winner, second


def _assign_exactly(
    directions: Directions, centroids: _Centroids, nearest: _Nearest, doubtful: Whole, memory: int
) -> None:
    """Find the nearest centroid of some points in whole numbers; the first of equally near ones."""
    for part in _blocks(len(doubtful), memory * 2**20 // (32 * (len(centroids) + directions.width))):
        rows = doubtful[part]
        every = np.arange(len(rows))
        # Each product is exact in float64; twice the bracket may need one digit more than that has.
        doubled = 2 * (directions.whole(rows) @ centroids.whole.T).to(torch.int64).numpy() - centroids.squares
        own = doubled.argmax(axis=1)
        nearest.own[rows] = own
        nearest.value[rows] = doubled[every, own] / (2 * SCALE**2)
        doubled[every, own] = np.iinfo(np.int64).min
        nearest.rival[rows] = doubled.max(axis=1) / (2 * SCALE**2)


def _fill_empty(directions: Directions, centroids: _Centroids, nearest: _Nearest, ranks: Whole, run: Run) -> None:
    """Give each empty cluster the farthest point that is not the last of its own cluster."""
    counts = np.bincount(nearest.own, minlength=len(centroids))
    empty = np.flatnonzero(counts == 0)
    if len(empty) == 0:
        return
    distances = _squared_distances(directions, centroids, nearest.own, run)
    farthest = iter(np.lexsort((ranks, -distances)))
    for cluster in empty:
        for point in farthest:
            if distances[point] > 0 and counts[nearest.own[point]] > 1:
                counts[nearest.own[point]] -= 1
                nearest.own[point] = cluster
                # The centroid that the point is taken from is now one of the others.
                nearest.rival[point] = max(nearest.rival[point], nearest.value[point])
                break


def _move_members(directions: Directions, before: Whole, own: Whole, sums: Tensor, counts: Whole) -> Whole:
    """Bring the sums and counts of the clusters up to date; exact, so in steps as good as anew. Whose changed."""
    changed = np.flatnonzero(before != own)
    touched = np.zeros(len(counts), dtype=bool)
    for part in _blocks(len(changed), _ROWS_AT_ONCE):
        rows = changed[part]
        whole = directions.whole(rows)
        had_one = before[rows] >= 0
        sums.index_add_(0, torch.from_numpy(own[rows]), whole)
        sums.index_add_(0, torch.from_numpy(before[rows][had_one]), whole[torch.from_numpy(had_one)], alpha=-1)
        np.add.at(counts, own[rows], 1)
        np.subtract.at(counts, before[rows][had_one], 1)
        touched[own[rows]] = True
        touched[before[rows][had_one]] = True
        before[rows] = own[rows]
    return np.flatnonzero(touched)


def _to_means(centroids: _Centroids, sums: Tensor, counts: Whole, touched: Whole) -> Whole:
    """Put the centroids of the touched clusters to the means of their points; those that moved by that."""
    touched = touched[counts[touched] > 0]
    moved = np.zeros(len(touched), dtype=bool)
    for part in _blocks(len(touched), _ROWS_AT_ONCE):
        index = torch.from_numpy(touched[part])
        means = (sums[index] / torch.from_numpy(counts[touched[part]])[:, None]).round() + 0.0
        is_moved = (means != centroids.whole[index]).any(dim=1)
        centroids.place(touched[part][is_moved.numpy()], means[is_moved])
        moved[part] = is_moved.numpy()
    return touched[moved]


def _squared_distances(directions: Directions, centroids: _Centroids, own: Whole, run: Run) -> Whole:
    """The squared distance of each point to its centroid, in whole numbers."""
    distances = np.empty(len(own), dtype=np.int64)

    def measure(part: tuple[int, int]) -> int:
        for rows in _blocks(part[1] - part[0], _ROWS_AT_ONCE, first=part[0]):
            # Each product is exact in float64; a squared distance may need two binary digits more, which int64 has.
            whole, centres = directions.whole(rows), centroids.whole[torch.from_numpy(own[rows])]
            products = (whole * centres).sum(dim=1).to(torch.int64)
            squares = (whole * whole).sum(dim=1).to(torch.int64)
            distances[rows] = (squares - 2 * products).numpy() + centroids.squares[own[rows]]
        return 0

    run(measure, len(own))
    return distances


def _blocks(count: int, size: int, *, first: int = 0) -> list[slice]:
    size = max(1, size)
    return [slice(start, min(start + size, first + count)) for start in range(first, first + count, size)]
