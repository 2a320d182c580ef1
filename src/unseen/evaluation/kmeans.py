"""k-means on directions, by Lloyd's iterations in whole numbers: the same clusters on any machine, in any row order.

Centroids are rounded to the grid of the directions, so assignments come from exact inner products (`directions`), and
sums of members are sums of whole numbers. Rows are first put in the order of their content, so the random start does
not depend on how a table happens to be stored. float64 is what makes this exact; it costs twice the time of float32.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unseen.core.checks import check_count
from unseen.core.randomness import derive, numpy_generator
from unseen.evaluation.directions import SCALE, Directions


class Clusters(NamedTuple):
    """The cluster of each point, and the mean squared distance of the points to their centroids."""

    assignment: NDArray[np.int64]
    inertia: float


@dataclass(frozen=True, kw_only=True)
class KMeans:
    """How points are clustered; part of the definition of every score that needs clusters.

    Lloyd's iterations from random distinct points, as faiss starts in the authors' code of R (SPEC 4.3). A cluster that
    loses all its points takes the point farthest from its centroid. Of several restarts the smallest inertia counts.

    Empty:  with fewer distinct points than clusters, each distinct point is a cluster
    """

    iterations: int = 20
    restarts: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        check_count("KMeans", "iterations", self.iterations)
        check_count("KMeans", "restarts", self.restarts)
        check_count("KMeans", "seed", self.seed, at_least=0)

    @property
    def definition(self) -> str:
        """The engine and its settings, in the words that stand beside a score."""
        return (
            f"k-means on unit vectors with one cluster per class (Lloyd, float64, {self.iterations} iterations, "
            f"{self.restarts} start{'s' if self.restarts > 1 else ''} from random distinct points, seed {self.seed})"
        )

    def __call__(self, directions: Directions, clusters: int) -> Clusters:
        """Cluster all points into at most that many clusters."""
        order = _by_content(directions.units.numpy())
        units = directions.units[torch.from_numpy(order)]
        is_new = np.append(True, (units[1:] != units[:-1]).any(dim=1).numpy())
        distinct = np.flatnonzero(is_new)
        clusters = min(clusters, len(distinct))
        starts = [
            numpy_generator(derive(self.seed, "kmeans", restart)).choice(distinct, size=clusters, replace=False)
            for restart in range(self.restarts)
        ]
        found = [lloyd(units, units[torch.from_numpy(start)], iterations=self.iterations) for start in starts]
        best = min(found, key=lambda clustering: clustering.inertia)
        assignment = np.empty_like(best.assignment)
        assignment[order] = best.assignment
        return Clusters(assignment, best.inertia)


def lloyd(units: Tensor, centroids: Tensor, *, iterations: int) -> Clusters:
    """Lloyd's algorithm: points go to their nearest centroid, centroids to the mean of their points.

    Shape:  units (n, d) and centroids (k, d), whole numbers in float64 -> a cluster in 0 ... k - 1 for each point
    """
    assignment, distances = _nearest(units, centroids)
    for _ in range(iterations):
        _fill_empty(assignment, distances, len(centroids))
        moved = _means(units, assignment, centroids)
        if torch.equal(moved, centroids):
            break
        centroids = moved
        assignment, distances = _nearest(units, centroids)
    return Clusters(assignment, float(distances.mean() / SCALE**2))


def _nearest(units: Tensor, centroids: Tensor) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The nearest centroid of each point, the first of equally near ones, and the squared distance to it."""
    half_norms = ((centroids * centroids).sum(dim=1) / 2).numpy()
    assignment = np.empty(len(units), dtype=np.int64)
    distances = np.empty(len(units))
    rows = max(1, 2**22 // len(centroids))
    for start in range(0, len(units), rows):
        block = units[start : start + rows]
        # |x - c|^2 = |x|^2 - 2 (x.c - |c|^2 / 2): the nearest centroid has the largest bracket.
        brackets = (block @ centroids.T).numpy()
        brackets -= half_norms
        nearest = brackets.argmax(axis=1)
        assignment[start : start + rows] = nearest
        norms = (block * block).sum(dim=1).numpy()
        distances[start : start + rows] = norms - 2 * brackets[np.arange(len(nearest)), nearest]
    return assignment, np.maximum(distances, 0.0)


def _fill_empty(assignment: NDArray[np.int64], distances: NDArray[np.float64], clusters: int) -> None:
    """Give each empty cluster the farthest point that is not the last of its own cluster."""
    counts = np.bincount(assignment, minlength=clusters)
    empty = np.flatnonzero(counts == 0)
    if len(empty) == 0:
        return
    farthest = iter(np.argsort(-distances, kind="stable"))
    for cluster in empty:
        for point in farthest:
            if distances[point] > 0 and counts[assignment[point]] > 1:
                counts[assignment[point]] -= 1
                assignment[point] = cluster
                break


def _means(units: Tensor, assignment: NDArray[np.int64], centroids: Tensor) -> Tensor:
    index = torch.from_numpy(assignment)
    sums = torch.zeros_like(centroids).index_add_(0, index, units)
    counts = torch.bincount(index, minlength=len(centroids)).to(sums.dtype)[:, None]
    return torch.where(counts > 0, (sums / counts.clamp(min=1)).round() + 0.0, centroids)


def _by_content(units: NDArray[np.float64]) -> NDArray[np.int64]:
    """The rows in the order of their bytes; equal rows are the same point, so their order does not matter."""
    rows = np.ascontiguousarray(units)
    return np.argsort(rows.view(np.dtype((np.void, rows.shape[1] * rows.itemsize))).ravel(), kind="stable")
