"""Lloyd's iterations in integers at the speed of float32, computing only what the last iteration changed.

Most centroids soon stop moving. A point is then compared only with those that moved: its own centroid has won against
all others before, or the bound kept for the second best shows that none of them can win now.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from unseen.core.progress import Progress, no_progress
from unseen.evaluation.exact.arrays import Booleans, Float32s, Floats, Int8s, Int32s, Integers
from unseen.evaluation.exact.directions import SCALE, Directions, Units
from unseen.evaluation.exact.kernels import IS_COMPILED
from unseen.evaluation.exact.kernels.centroids import Centroids, Nearest, TwoBest
from unseen.evaluation.exact.threads import Run, run_in_threads

# Products of this size run near the processor's peak, and their result stays in the cache until it is read.
_POINTS_AT_ONCE = 512
_CENTROIDS_AT_ONCE = 2048
# With few centroids more points are compared at once, up to this many products.
_PRODUCTS_AT_ONCE = 2**17
# Rows in float64 that stay in the cache from one step to the next.
_ROWS_AT_ONCE = 256
# If more than this share of the centroids moved, comparing with all of them renews every bound for little more.
_NEARLY_ALL = 0.8
# Fewer comparisons of a point with a centroid take less time than loading the compiled loops.
_MANY_COMPARISONS = 2**22


class Clusters(NamedTuple):
    """The cluster of each point, and the mean squared distance of the points to their centroids."""

    assignment: Integers
    inertia: float


class _Work(NamedTuple):
    """How the work is done: in which threads, with how many MB for products, and by which loops."""

    run: Run
    memory: int
    two_best: Callable[..., None]
    settle: Callable[..., None]
    add_members: Callable[..., None]
    to_means: Callable[..., Booleans]

    @classmethod
    def choose(cls, run: Run, memory: int, comparisons: int) -> "_Work":
        """Compiled loops for many comparisons of a point with a centroid, NumPy's for few."""
        if not IS_COMPILED or comparisons < _MANY_COMPARISONS:
            return cls(run, memory, _two_best, _settle, _add_members, _to_means)
        from unseen.evaluation.exact.kernels import nearest

        return cls(run, memory, nearest.two_best, nearest.settle, nearest.add_members, nearest.to_means)


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
    centroids = Centroids.of(start)
    nearest = Nearest(np.zeros(count, dtype=np.int64), np.zeros(count, np.float32), np.zeros(count, np.float32))
    before = np.full(count, -1, dtype=np.int64)
    sums, counts = np.zeros_like(centroids.integers), np.zeros(len(centroids.squares), dtype=np.int64)
    # NumPy's products: for a few hundred centroids they are faster than torch's.
    with run_in_threads() as run:
        work = _Work.choose(run, memory, count * len(centroids.squares) * iterations)
        _assign(directions, centroids, nearest, np.arange(len(centroids.squares)), work)
        for iteration in range(iterations):
            progress(iteration, iterations, "")
            _fill_empty(directions, centroids, nearest, ranks, run)
            touched = _move_members(directions, before, nearest.own, sums, counts, work)
            touched = touched[counts[touched] > 0]
            moved = touched[work.to_means(sums, counts, touched, centroids)]
            if len(moved) == 0:
                break
            _assign(directions, centroids, nearest, moved, work)
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


def _assign(directions: Directions, centroids: Centroids, nearest: Nearest, moved: Integers, work: _Work) -> None:
    """Update the nearest centroid of each point, given which centroids moved since the last update."""
    if len(moved) > _NEARLY_ALL * len(centroids.squares):
        moved = np.arange(len(centroids.squares))
        nearest.rival[:] = -np.inf
    is_moved = np.zeros(len(centroids.squares), dtype=bool)
    is_moved[moved] = True
    columns = [moved[part] for part in _blocks(len(moved), _CENTROIDS_AT_ONCE)]
    # Copied once: a product with scattered rows would copy them for each block of points.
    tiles = [(part, np.ascontiguousarray(centroids.float32[part].T), centroids.half_squares[part]) for part in columns]
    margin = np.float32(2 * _error(directions.width))
    is_doubtful = np.zeros(len(directions), dtype=bool)
    step = max(_POINTS_AT_ONCE, _PRODUCTS_AT_ONCE // len(moved))
    step = max(1, min(step, work.memory * 2**20 // (16 * (_CENTROIDS_AT_ONCE + directions.width))))

    def assign(start: int, stop: int) -> None:
        buffer = np.empty(step * min(_CENTROIDS_AT_ONCE, len(moved)), dtype=np.float32)
        for rows in _blocks(stop - start, step, first=start):
            points = directions.float32(rows).numpy()
            nothing = np.full(len(points), -np.inf, dtype=np.float32)
            best = TwoBest(nothing, np.zeros(len(points), dtype=np.int64), nothing.copy())
            for numbers, float32, half_squares in tiles:
                brackets = buffer[: len(points) * len(numbers)].reshape(len(points), len(numbers))
                np.matmul(points, float32, out=brackets)
                work.two_best(brackets, half_squares, numbers, best)
            work.settle(best, nearest.of(rows), is_moved, margin, is_doubtful[rows])

    work.run(assign, len(directions))
    _assign_exactly(directions, centroids, nearest, np.flatnonzero(is_doubtful), work.memory)


def _two_best(brackets: Float32s, half_squares: Float32s, numbers: Integers, best: TwoBest) -> None:
    """Update the two best centroids of some points with products of these points and the centroids ``numbers``."""
    brackets -= half_squares
    every, first = np.arange(len(brackets)), brackets.argmax(axis=1)
    largest = brackets[every, first]
    brackets[every, first] = -np.inf
    best.second[:] = np.maximum(np.maximum(best.second, brackets.max(axis=1)), np.minimum(best.value, largest))
    best.winner[:] = np.where(largest > best.value, numbers[first], best.winner)
    best.value[:] = np.maximum(best.value, largest)


def _settle(best: TwoBest, nearest: Nearest, is_moved: Booleans, margin: np.float32, is_doubtful: Booleans) -> None:
    """Update the nearest centroid of some points, or mark them as doubtful, after a comparison with all that moved."""
    own, value, rival = nearest
    own_moved = is_moved[own]
    # The best that an unmoved centroid can be: the second best so far, or the point's own if that is unmoved.
    unmoved = np.where(own_moved, rival, value)
    others = np.maximum(best.second, unmoved)
    stays = ~own_moved & (value - best.value > margin)
    goes = best.value - others > margin
    rival[stays] = np.maximum(rival, best.value)[stays]
    own[goes], value[goes], rival[goes] = best.winner[goes], best.value[goes], others[goes]
    is_doubtful[:] = ~(stays | goes)


def _assign_exactly(
    directions: Directions, centroids: Centroids, nearest: Nearest, doubtful: Integers, memory: int
) -> None:
    """Find the nearest centroid of some points in integers, the first of equally near ones."""
    for part in _blocks(len(doubtful), memory * 2**20 // (32 * (len(centroids.squares) + directions.width))):
        rows = doubtful[part]
        every = np.arange(len(rows))
        # Each product is exact in float64; twice the bracket may need one more bit than float64 has.
        products = directions.integers(rows).numpy() @ centroids.integers.T
        doubled = 2 * products.astype(np.int64) - centroids.squares
        own = doubled.argmax(axis=1)
        nearest.own[rows] = own
        nearest.value[rows] = doubled[every, own] / (2 * SCALE**2)
        doubled[every, own] = np.iinfo(np.int64).min
        nearest.rival[rows] = doubled.max(axis=1) / (2 * SCALE**2)


def _fill_empty(directions: Directions, centroids: Centroids, nearest: Nearest, ranks: Integers, run: Run) -> None:
    """Give each empty cluster the farthest point that is not the last of its own cluster."""
    counts = np.bincount(nearest.own, minlength=len(centroids.squares))
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


def _move_members(
    directions: Directions, before: Integers, own: Integers, sums: Floats, counts: Integers, work: _Work
) -> Integers:
    """Update the sums and counts of the clusters (exact, so nothing accumulates); returns the changed clusters."""
    changed = np.flatnonzero(before != own)
    entered, left = own[changed], before[changed]
    for part in _blocks(len(changed), _ROWS_AT_ONCE):
        units = directions.units(changed[part])
        remainders = units.remainder_index, units.remainders
        work.add_members(units.float32.numpy(), remainders, entered[part], left[part], sums)
    before[changed] = entered
    left = left[left >= 0]
    counts += np.bincount(entered, minlength=len(counts)) - np.bincount(left, minlength=len(counts))
    touched = np.zeros(len(counts), dtype=bool)
    touched[entered] = touched[left] = True
    return np.flatnonzero(touched)


def _add_members(
    float32: Float32s, remainders: tuple[Int32s, Int8s], entered: Integers, left: Integers, sums: Floats
) -> None:
    """Add each row to the sum of the cluster that it entered and take it from the one it left (-1 for none)."""
    integers, had_cluster = Units(torch.from_numpy(float32), *remainders).integers(), left >= 0
    leaving = integers[torch.from_numpy(had_cluster)]
    torch.from_numpy(sums).index_add_(0, torch.from_numpy(entered), integers)
    torch.from_numpy(sums).index_add_(0, torch.from_numpy(left[had_cluster]), leaving, alpha=-1)


def _to_means(sums: Floats, counts: Integers, touched: Integers, centroids: Centroids) -> Booleans:
    """Move the centroids of the touched clusters to the means of their points; returns which of them moved."""
    moved = np.zeros(len(touched), dtype=bool)
    for part in _blocks(len(touched), _ROWS_AT_ONCE):
        numbers = touched[part]
        means = np.rint(sums[numbers] / counts[numbers][:, None]) + 0.0
        moved[part] = (means != centroids.integers[numbers]).any(axis=1)
        centroids.move(numbers[moved[part]], means[moved[part]])
    return moved


def _squared_distances(directions: Directions, centroids: Centroids, own: Integers, run: Run) -> Integers:
    """The squared distance of each point to its centroid, in integers."""
    distances = np.empty(len(own), dtype=np.int64)

    def measure(start: int, stop: int) -> None:
        for rows in _blocks(stop - start, _ROWS_AT_ONCE, first=start):
            # Each product is exact in float64; a squared distance may need two more bits, which int64 has.
            integers, centres = directions.integers(rows), torch.from_numpy(centroids.integers[own[rows]])
            products = (integers * centres).sum(dim=1).to(torch.int64)
            squares = (integers * integers).sum(dim=1).to(torch.int64)
            distances[rows] = (squares - 2 * products).numpy() + centroids.squares[own[rows]]

    run(measure, len(own))
    return distances


def _blocks(count: int, size: int, *, first: int = 0) -> list[slice]:
    size = max(1, size)
    return [slice(start, min(start + size, first + count)) for start in range(first, first + count, size)]
