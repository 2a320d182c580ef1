"""Lloyd's iterations in integers at the speed of float32, computing only what the last iteration changed.

Most centroids soon stop moving. A point is then compared only with those that moved: its own centroid has won against
all others before, or the bound kept for the second best shows that none of them can win now.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor

from unseen.core.progress import Progress, no_progress
from unseen.evaluation.exact.arrays import Float32s, Integers
from unseen.evaluation.exact.directions import SCALE, Directions
from unseen.evaluation.exact.threads import Run, run_in_threads

# Products of this size run near the processor's peak, and their result stays in the cache until it is read.
_POINTS_AT_ONCE = 512
_CENTROIDS_AT_ONCE = 2048
# Rows in float64 that stay in the cache from one step to the next.
_ROWS_AT_ONCE = 256
# If more than this share of the centroids moved, comparing with all of them renews every bound for little more.
_NEARLY_ALL = 0.8


class Clusters(NamedTuple):
    """The cluster of each point, and the mean squared distance of the points to their centroids."""

    assignment: Integers
    inertia: float


class _Centroids:
    """Centroids as integers in float64, with float32 copies for the products."""

    def __init__(self, integers: Tensor) -> None:
        self.integers = torch.empty_like(integers)
        self.float32 = torch.empty(integers.shape, dtype=torch.float32)
        self.squares = np.empty(len(integers), dtype=np.int64)
        self.half_squares = torch.empty(len(integers), dtype=torch.float32)
        for part in _blocks(len(integers), _ROWS_AT_ONCE):
            self.move(np.arange(part.start, part.stop), integers[part])

    def __len__(self) -> int:
        return len(self.integers)

    def move(self, numbers: Integers, integers: Tensor) -> None:
        """Move some of the centroids."""
        index = torch.from_numpy(numbers)
        squares = (integers * integers).sum(dim=1)
        self.integers[index] = integers
        self.float32[index] = (integers / SCALE).to(torch.float32)
        self.squares[numbers] = squares.to(torch.int64).numpy()
        self.half_squares[index] = (squares / (2 * SCALE**2)).to(torch.float32)


class _Nearest(NamedTuple):
    """For each point its centroid, the bracket of that one, and a bound on the brackets of all others.

    |x - c|^2 = |x|^2 - 2 (x.c - |c|^2 / 2): the nearest centroid has the largest bracket. Brackets here are off by at
    most the bound of `_error`; that of every other centroid is below ``rival`` plus that bound.
    """

    own: Integers
    value: Float32s
    rival: Float32s


def lloyd(
    directions: Directions,
    start: Tensor,
    *,
    iterations: int,
    ranks: Integers | None = None,
    memory: int = 64,
    progress: Progress = no_progress,
) -> Clusters:
    """Lloyd's algorithm: points go to their nearest centroid, centroids to the mean of their points, rounded.

    A centroid without points takes the farthest point that is not the last of its cluster; of equally far points the
    first by ``ranks`` (by row without them). It stops early when no centroid moves. ``memory`` in MB bounds the matrix
    products, beyond a few copies of the centroids. ``progress`` counts iterations.

    Shape:  n directions of width d and start (k, d), integers in float64 -> a cluster in 0 ... k - 1 per point
    """
    count = len(directions)
    ranks = np.arange(count) if ranks is None else ranks
    centroids = _Centroids(start)
    nearest = _Nearest(np.zeros(count, dtype=np.int64), np.zeros(count, np.float32), np.zeros(count, np.float32))
    before = np.full(count, -1, dtype=np.int64)
    sums, counts = torch.zeros_like(centroids.integers), np.zeros(len(centroids), dtype=np.int64)
    # NumPy's products: for a few hundred centroids they are faster than torch's.
    with run_in_threads() as run, threadpool_limits(1, user_api="blas"):
        _assign(directions, centroids, nearest, np.arange(len(centroids)), memory, run)
        for iteration in range(iterations):
            progress(iteration, iterations, "")
            _fill_empty(directions, centroids, nearest, ranks, run)
            touched = _move_members(directions, before, nearest.own, sums, counts)
            moved = _to_means(centroids, sums, counts, touched)
            if len(moved) == 0:
                break
            _assign(directions, centroids, nearest, moved, memory, run)
        progress(iterations, iterations, "")
        # Distances are below 2^55; their sum may need more than 64 bits, which Python's integers have.
        total = sum(_squared_distances(directions, centroids, nearest.own, run).tolist())
    return Clusters(nearest.own, total / count / SCALE**2)


def _error(width: int) -> float:
    """A bound on the error of a bracket in float32, for unit vectors and centroids no longer than those.

    Let u = 2^-24 and g(n) = n u / (1 - n u). A sum of d products is off by at most g(d) |x| |c|, in any order of
    summation, with or without fused steps; rounding x and c to float32 makes it g(d + 2), subtracting |c|^2 / 2, itself
    rounded, g(d + 3) |x| |c| + g(2) |c|^2 / 2. Lengths exceed 1 by at most sqrt(d) 2^-27, from the rounding to
    integers. All of it is below g(d + 5) for any width in use; the rest of g(d + 8) covers the comparisons themselves.
    """
    if torch.get_float32_matmul_precision() != "highest":
        return math.inf  # the user allowed products of lower precision: everything is decided in float64
    steps = (width + 8) * 2.0**-24
    return steps / (1 - steps)


def _assign(
    directions: Directions, centroids: _Centroids, nearest: _Nearest, moved: Integers, memory: int, run: Run
) -> None:
    """Update the nearest centroid of each point, given which centroids moved since the last update."""
    if len(moved) > _NEARLY_ALL * len(centroids):
        moved = np.arange(len(centroids))
        nearest.rival[:] = -np.inf
    is_moved = np.zeros(len(centroids), dtype=bool)
    is_moved[moved] = True
    columns = [moved[part] for part in _blocks(len(moved), _CENTROIDS_AT_ONCE)]
    # Copied once: a product with scattered rows would copy them for each block of points.
    tiles = [(part, centroids.float32[part].numpy().T, centroids.half_squares[part].numpy()) for part in columns]
    margin = np.float32(2 * _error(directions.width))
    is_doubtful = np.zeros(len(directions), dtype=bool)
    step = max(1, min(_POINTS_AT_ONCE, memory * 2**20 // (16 * (_CENTROIDS_AT_ONCE + directions.width))))

    def assign(start: int, stop: int) -> None:
        buffer = np.empty(step * min(_CENTROIDS_AT_ONCE, len(moved)), dtype=np.float32)
        for rows in _blocks(stop - start, step, first=start):
            best, winner, second = _two_best(directions.float32(rows).numpy(), tiles, buffer)
            own, value, rival = nearest.own[rows], nearest.value[rows], nearest.rival[rows]
            own_moved = is_moved[own]
            # The best that an unmoved centroid can be: the second best so far, or the point's own if that is unmoved.
            unmoved = np.where(own_moved, rival, value)
            stays = ~own_moved & (value - best > margin)
            goes = best - np.maximum(second, unmoved) > margin
            rival[stays] = np.maximum(rival, best)[stays]
            own[goes], value[goes], rival[goes] = winner[goes], best[goes], np.maximum(second, unmoved)[goes]
            is_doubtful[rows] = ~(stays | goes)

    run(assign, len(directions))
    _assign_exactly(directions, centroids, nearest, np.flatnonzero(is_doubtful), memory)


def _two_best(
    points: Float32s, tiles: list[tuple[Integers, Float32s, Float32s]], buffer: Float32s
) -> tuple[Float32s, Integers, Float32s]:
    """The largest bracket of each point, the centroid it belongs to, and the second largest bracket."""
    best = np.full(len(points), -np.inf, dtype=np.float32)
    second = best.copy()
    winner = np.zeros(len(points), dtype=np.int64)
    every = np.arange(len(points))
    for numbers, float32, half_squares in tiles:
        brackets = buffer[: len(points) * len(numbers)].reshape(len(points), len(numbers))
        np.matmul(points, float32, out=brackets)
        brackets -= half_squares
        first = brackets.argmax(axis=1)
        largest = brackets[every, first]
        brackets[every, first] = -np.inf
        second = np.maximum(np.maximum(second, brackets.max(axis=1)), np.minimum(best, largest))
        winner = np.where(largest > best, numbers[first], winner)
        best = np.maximum(best, largest)
    return best, winner, second


def _assign_exactly(
    directions: Directions, centroids: _Centroids, nearest: _Nearest, doubtful: Integers, memory: int
) -> None:
    """Find the nearest centroid of some points in integers, the first of equally near ones."""
    for part in _blocks(len(doubtful), memory * 2**20 // (32 * (len(centroids) + directions.width))):
        rows = doubtful[part]
        every = np.arange(len(rows))
        # Each product is exact in float64; twice the bracket may need one more bit than float64 has.
        doubled = 2 * (directions.integers(rows) @ centroids.integers.T).to(torch.int64).numpy() - centroids.squares
        own = doubled.argmax(axis=1)
        nearest.own[rows] = own
        nearest.value[rows] = doubled[every, own] / (2 * SCALE**2)
        doubled[every, own] = np.iinfo(np.int64).min
        nearest.rival[rows] = doubled.max(axis=1) / (2 * SCALE**2)


def _fill_empty(directions: Directions, centroids: _Centroids, nearest: _Nearest, ranks: Integers, run: Run) -> None:
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
                # The point's former centroid is now one of the others.
                nearest.rival[point] = max(nearest.rival[point], nearest.value[point])
                break


def _move_members(directions: Directions, before: Integers, own: Integers, sums: Tensor, counts: Integers) -> Integers:
    """Update the sums and counts of the clusters (exact, so nothing accumulates); returns the changed clusters."""
    changed = np.flatnonzero(before != own)
    touched = np.zeros(len(counts), dtype=bool)
    for part in _blocks(len(changed), _ROWS_AT_ONCE):
        rows = changed[part]
        integers = directions.integers(rows)
        had_cluster = before[rows] >= 0
        entered, left = own[rows], before[rows][had_cluster]
        sums.index_add_(0, torch.from_numpy(entered), integers)
        sums.index_add_(0, torch.from_numpy(left), integers[torch.from_numpy(had_cluster)], alpha=-1)
        np.add.at(counts, entered, 1)
        np.subtract.at(counts, left, 1)
        touched[entered] = touched[left] = True
        before[rows] = entered
    return np.flatnonzero(touched)


def _to_means(centroids: _Centroids, sums: Tensor, counts: Integers, touched: Integers) -> Integers:
    """Move the centroids of the touched clusters to the means of their points; returns those that moved."""
    touched = touched[counts[touched] > 0]
    moved = np.zeros(len(touched), dtype=bool)
    for part in _blocks(len(touched), _ROWS_AT_ONCE):
        index = torch.from_numpy(touched[part])
        means = (sums[index] / torch.from_numpy(counts[touched[part]])[:, None]).round() + 0.0
        is_moved = (means != centroids.integers[index]).any(dim=1)
        centroids.move(touched[part][is_moved.numpy()], means[is_moved])
        moved[part] = is_moved.numpy()
    return touched[moved]


def _squared_distances(directions: Directions, centroids: _Centroids, own: Integers, run: Run) -> Integers:
    """The squared distance of each point to its centroid, in integers."""
    distances = np.empty(len(own), dtype=np.int64)

    def measure(start: int, stop: int) -> None:
        for rows in _blocks(stop - start, _ROWS_AT_ONCE, first=start):
            # Each product is exact in float64; a squared distance may need two more bits, which int64 has.
            integers, centres = directions.integers(rows), centroids.integers[torch.from_numpy(own[rows])]
            products = (integers * centres).sum(dim=1).to(torch.int64)
            squares = (integers * integers).sum(dim=1).to(torch.int64)
            distances[rows] = (squares - 2 * products).numpy() + centroids.squares[own[rows]]

    run(measure, len(own))
    return distances


def _blocks(count: int, size: int, *, first: int = 0) -> list[slice]:
    size = max(1, size)
    return [slice(start, min(start + size, first + count)) for start in range(first, first + count, size)]
