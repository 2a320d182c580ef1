"""k-means on directions: initialisation, restarts, and the settings that belong to a score's definition."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from unseen.core.checks import check_choice, check_count
from unseen.core.progress import Progress, no_progress
from unseen.core.randomness import derive, numpy_generator
from unseen.evaluation.exact.arrays import Integers
from unseen.evaluation.exact.directions import Directions
from unseen.evaluation.exact.lloyd import Clusters, lloyd
from unseen.evaluation.exact.row_hashes import order_of, row_keys

_STARTS = {"random": "random distinct points", "k-means++": "k-means++"}
# Points proposed at a time: with more, most would be rejected; with fewer, the products are slow.
_PROPOSALS = 256


@dataclass(frozen=True, kw_only=True)
class KMeans:
    """How points are clustered; part of the definition of every score that needs clusters.

    Lloyd's iterations from random distinct points, as faiss does in the code of Roth et al. (arXiv:2002.08473), or from
    points drawn by k-means++. A cluster that loses all its points takes the point farthest from its centroid. Of
    several restarts the one with the smallest inertia is taken.

    ===========  ==========================================================================================
    clusters     number of clusters; as many as classes if None (Roth et al. take the number of training classes)
    iterations   maximum number of iterations; stops early when no centroid moves
    start        "random": distinct points, each equally likely; "k-means++": by squared distance to those before
    restarts     number of initialisations
    seed         of the initialisations
    ===========  ==========================================================================================

    Empty:      with fewer distinct points than clusters, each distinct point is a cluster
    Reference:  Arthur and Vassilvitskii, k-means++: The Advantages of Careful Seeding, SODA 2007
    """

    clusters: int | None = None
    iterations: int = 20
    start: Literal["random", "k-means++"] = "random"
    restarts: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        if self.clusters is not None:
            check_count("KMeans", "clusters", self.clusters)
        check_count("KMeans", "iterations", self.iterations)
        check_choice("KMeans", "start", self.start, _STARTS)
        check_count("KMeans", "restarts", self.restarts)
        check_count("KMeans", "seed", self.seed, at_least=0)

    @property
    def definition(self) -> str:
        """The algorithm and its settings, as printed with a score."""
        number = "one cluster per class" if self.clusters is None else f"{self.clusters} clusters"
        return (
            f"k-means on unit vectors with {number} (Lloyd, exact, {self.iterations} iterations, "
            f"{self.restarts} start{'s' if self.restarts > 1 else ''} from {_STARTS[self.start]}, seed {self.seed})"
        )

    def __call__(
        self, directions: Directions, classes: int, *, memory: int = 64, progress: Progress = no_progress
    ) -> Clusters:
        """Cluster all points into ``clusters``, or as many as classes; at most one cluster per distinct point.

        ``memory`` in MB bounds the matrix products, beyond a few copies of the centroids; ``progress`` counts
        iterations.
        """
        # Rows are drawn in the order of their content: how a table is stored does not matter.
        keys = row_keys(directions)
        order = order_of(keys)
        distinct = order[np.append(True, (keys[order[1:]] != keys[order[:-1]]).any(axis=1))]
        clusters = min(self.clusters or classes, len(distinct))
        ranks = np.empty_like(order)
        ranks[order] = np.arange(len(order))
        best: Clusters | None = None
        for restart in range(self.restarts):
            generator = numpy_generator(derive(self.seed, "kmeans", restart))
            if self.start == "random":
                start = generator.choice(distinct, size=clusters, replace=False)
            else:
                start = plus_plus(directions, order, clusters, generator=generator, memory=memory)
            centroids, report = directions.integers(start), _offset(progress, restart, self.restarts)
            result = lloyd(
                directions, centroids, iterations=self.iterations, ranks=ranks, memory=memory, progress=report
            )
            if best is None or result.inertia < best.inertia:
                best = result
        assert best is not None
        return best


def plus_plus(
    directions: Directions, order: Integers, clusters: int, *, generator: np.random.Generator, memory: int
) -> Integers:
    """Rows drawn by k-means++: each with probability proportional to its squared distance to the nearest one before.

    Many are proposed at a time, by the distances d to the rows accepted until then. A proposal whose distance has
    become d' through rows accepted earlier in its batch is accepted with probability d' / d: it is then drawn in
    proportion to d', as if the distances had been updated after each row.
    """
    chosen = [int(order[generator.integers(len(order))])]
    distances = np.full(len(order), np.iinfo(np.int64).max)
    _lower_distances(distances, directions, np.array(chosen), memory)
    while len(chosen) < clusters:
        # Summed in the order of content, so that the order of the rows does not matter.
        heights = np.cumsum(distances[order].astype(np.float64))
        draws = generator.random((min(_PROPOSALS, 1 + len(chosen) // 4), 2))
        targets = np.minimum(draws[:, 0] * heights[-1], np.nextafter(heights[-1], 0))
        proposed = order[np.searchsorted(heights, targets, side="right")]
        between = _distances_between(directions, proposed, proposed)
        accepted: list[int] = []
        for number, row in enumerate(proposed):
            updated = min(distances[row], between[number, accepted].min(initial=np.iinfo(np.int64).max))
            if draws[number, 1] * distances[row] < updated:
                accepted.append(number)
        accepted = accepted[: clusters - len(chosen)]
        chosen += proposed[accepted].tolist()
        _lower_distances(distances, directions, proposed[accepted], memory)
    return np.array(chosen)


def _lower_distances(distances: Integers, directions: Directions, rows: Integers, memory: int) -> None:
    """Update the squared distance of each point to its nearest chosen row with newly chosen rows."""
    step = max(1, memory * 2**20 // (32 * (directions.width + len(rows))))
    for first in range(0, len(distances), step):
        block = slice(first, min(first + step, len(distances)))
        distances[block] = np.minimum(distances[block], _distances_between(directions, block, rows).min(axis=1))


def _distances_between(directions: Directions, rows: slice | Integers, others: Integers) -> Integers:
    ones, twos = directions.integers(rows), directions.integers(others)
    squares = [(integers * integers).sum(dim=1).to(torch.int64).numpy() for integers in (ones, twos)]
    return squares[0][:, None] + squares[1] - 2 * (ones @ twos.T).to(torch.int64).numpy()


def _offset(progress: Progress, restart: int, restarts: int) -> Progress:
    return lambda done, total, message: progress(restart * total + done, restarts * total, message)
