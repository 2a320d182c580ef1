"""k-means on directions: where it starts, how often, and what of it belongs to a score's definition.

The random start does not depend on how a table happens to be stored: rows are put in the order of their `content`
before any is drawn. With exact iterations (`lloyd`) the same points get the same clusters on any machine, in
any row order.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from unseen.core.checks import check_choice, check_count
from unseen.core.randomness import derive, numpy_generator
from unseen.evaluation.exact.directions import Directions
from unseen.evaluation.exact.lloyd import Clusters, Progress, Whole, lloyd
from unseen.evaluation.exact.row_hashes import order_of, row_keys

_STARTS = {"random": "random distinct points", "k-means++": "k-means++"}
# Points proposed together: more of them and most would be refused, fewer and the products with them are slow.
_PROPOSALS = 256


@dataclass(frozen=True, kw_only=True)
class KMeans:
    """How points are clustered; part of the definition of every score that needs clusters.

    Lloyd's iterations from random distinct points, as faiss starts in the authors' code of R (SPEC 4.3), or from points
    drawn by k-means++. A cluster that loses all its points takes the point farthest from its centroid. Of several
    restarts the smallest inertia counts.

    ===========  ==========================================================================================
    clusters     their number; that of the classes if None. R's authors take the number of training classes
    iterations   means taken at most; fewer if no centroid moves any more
    start        "random": distinct points, each equally likely; "k-means++": by squared distance to those before
    restarts     starts tried
    seed         of the starts
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
        """The engine and its settings, in the words that stand beside a score."""
        number = "one cluster per class" if self.clusters is None else f"{self.clusters} clusters"
        return (
            f"k-means on unit vectors with {number} (Lloyd, exact, {self.iterations} iterations, "
            f"{self.restarts} start{'s' if self.restarts > 1 else ''} from {_STARTS[self.start]}, seed {self.seed})"
        )

    def __call__(
        self, directions: Directions, classes: int, *, memory: int = 64, progress: Progress | None = None
    ) -> Clusters:
        """Cluster all points into ``clusters``, or as many as there are classes, or at most one per distinct point.

        ``memory`` in MB bounds the products at hand, beyond a few copies of the centroids; ``progress`` gets the
        iterations done and in all.
        """
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
            found = lloyd(
                directions,
                directions.whole(start),
                iterations=self.iterations,
                ranks=ranks,
                memory=memory,
                progress=_shifted(progress, restart, self.restarts),
            )
            if best is None or found.inertia < best.inertia:
                best = found
        assert best is not None
        return best


def plus_plus(
    directions: Directions, order: Whole, clusters: int, *, generator: np.random.Generator, memory: int
) -> Whole:
    """Rows drawn one after another, each with a chance in proportion to its squared distance to the nearest before.

    Many are proposed at once, by the distances d to the rows accepted until then. Of a batch, a proposal whose distance
    has become d' through those accepted before it is accepted with the chance d' / d: it is then drawn in proportion to
    d', as if the distances had been brought up to date each time.
    """
    chosen = [int(order[generator.integers(len(order))])]
    distances = np.full(len(order), np.iinfo(np.int64).max)
    _bring_near(distances, directions, np.array(chosen), memory)
    while len(chosen) < clusters:
        # A sum in the order of content: the same in any order of the rows.
        heights = np.cumsum(distances[order].astype(np.float64))
        draws = generator.random((min(_PROPOSALS, 1 + len(chosen) // 4), 2))
        aims = np.minimum(draws[:, 0] * heights[-1], np.nextafter(heights[-1], 0))
        proposed = order[np.searchsorted(heights, aims, side="right")]
        between = _distances_between(directions, proposed, proposed)
        accepted: list[int] = []
        for place, row in enumerate(proposed):
            now = min(distances[row], between[place, accepted].min(initial=np.iinfo(np.int64).max))
            if draws[place, 1] * distances[row] < now:
                accepted.append(place)
        accepted = accepted[: clusters - len(chosen)]
        chosen += proposed[accepted].tolist()
        _bring_near(distances, directions, proposed[accepted], memory)
    return np.array(chosen)


def _bring_near(distances: Whole, directions: Directions, rows: Whole, memory: int) -> None:
    """Lower the squared distance of each point to its nearest chosen row by some newly chosen rows."""
    step = max(1, memory * 2**20 // (32 * (directions.width + len(rows))))
    for first in range(0, len(distances), step):
        block = slice(first, min(first + step, len(distances)))
        distances[block] = np.minimum(distances[block], _distances_between(directions, block, rows).min(axis=1))


def _distances_between(directions: Directions, rows: slice | Whole, others: Whole) -> NDArray[np.int64]:
    ones, twos = directions.whole(rows), directions.whole(others)
    squares = [(whole * whole).sum(dim=1).to(torch.int64).numpy() for whole in (ones, twos)]
    return squares[0][:, None] + squares[1] - 2 * (ones @ twos.T).to(torch.int64).numpy()


def _shifted(progress: Progress | None, restart: int, restarts: int) -> Progress | None:
    if progress is None:
        return None
    return lambda done, total: progress(restart * total + done, restarts * total)
