r"""How tight classes are and how far apart: distances within and between classes, and alignment.

Everything is computed from directions in whole numbers (`directions`) and sums of whole numbers, so that no score
depends on the order of the rows, on block sizes or threads, not in its last bit. Cosine distances need no pairs: for
m unit vectors :math:`\sum_{i<j} |e_i - e_j|^2 = m \sum_i |e_i|^2 - |\sum_i e_i|^2`, and
:math:`1 - S = |e_i - e_j|^2 / 2`.

An embedding of zeros has no direction: its cosine distance to everything is 1.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from unseen.core.registry import score
from unseen.evaluation.exact.directions import SCALE, Directions, read_directions

Numbers = NDArray[np.int64]
Whole = NDArray[np.float64]

_ROWS_AT_ONCE = 2048
_UNIT = 2**52
_LOW = 2**20
# Euclidean distances are rounded to 2^-36 and added up as whole numbers; their mean is off by less than 1e-11.
_FINE = 2.0**10


@dataclass(frozen=True, eq=False)
class ClassSums:
    """What the distances within and between classes are computed from, one entry a class.

    ===========  ==================================================================================
    rows         number of rows
    alive        number of rows with a direction
    sums         sum of the directions (classes, dimensions), whole numbers
    excess       sum of |direction|^2 - 2^52 over the rows that have one
    members      the directions of its rows
    ===========  ==================================================================================
    """

    rows: Numbers
    alive: Numbers
    sums: Whole
    excess: Numbers
    members: tuple[Directions, ...]

    def only(self, kept: Numbers) -> "ClassSums":
        """The same of some of the classes."""
        members = tuple(self.members[number] for number in kept)
        some = ClassSums(self.rows[kept], self.alive[kept], self.sums[kept], self.excess[kept], members)
        for name in ("apart", "euclidean"):
            if name in self.__dict__:
                some.__dict__[name] = [self.__dict__[name][number] for number in kept]
        return some

    @cached_property
    def pairs(self) -> list[int]:
        """The number of pairs of each class."""
        return (self.rows * (self.rows - 1) // 2).tolist()

    @cached_property
    def apart(self) -> list[int]:
        """The sum of the cosine distances of the pairs of each class, times 2^53."""
        counts = zip(self.rows.tolist(), self.alive.tolist(), self.excess.tolist(), _squares(self.sums), strict=True)
        totals = []
        for rows, alive, excess, square in counts:
            pairs_of_zeros = (rows * (rows - 1) - alive * (alive - 1)) // 2
            totals.append(alive * (alive * _UNIT + excess) - square + pairs_of_zeros * 2 * _UNIT)
        return totals

    @cached_property
    def euclidean(self) -> list[float]:
        """The mean Euclidean distance of the pairs of each class; 0 without any."""
        return [_mean_euclidean(members) for members in self.members]


def class_sums(directions: Directions, classes: Numbers) -> ClassSums:
    """The sums of all classes, whose numbers are 0, 1, 2, ... without gaps."""
    count = int(classes.max()) + 1
    alive, excess = np.zeros((2, count), dtype=np.int64)
    sums = np.zeros((count, directions.width))
    order = np.argsort(classes, kind="stable")
    for start in range(0, len(order), _ROWS_AT_ONCE):
        rows = order[start : start + _ROWS_AT_ONCE]
        whole = directions.whole(rows).numpy()
        numbers, firsts = np.unique(classes[rows], return_index=True)
        squares = np.einsum("ij,ij->i", whole, whole).astype(np.int64)
        is_alive = squares > 0
        # Sums of fewer than 2^27 coordinates below 2^26 are exact.
        sums[numbers] += np.add.reduceat(whole, firsts)
        alive[numbers] += np.add.reduceat(is_alive.astype(np.int64), firsts)
        excess[numbers] += np.add.reduceat(np.where(is_alive, squares - _UNIT, 0), firsts)
    sizes = np.bincount(classes, minlength=count)
    members = tuple(directions.take(rows) for rows in np.split(order, np.cumsum(sizes)[:-1]))
    return ClassSums(sizes, alive, sums, excess, members)


def _squares(sums: Whole) -> list[int]:
    """|sum|^2 of each class as a Python number; these have more digits than float64 or int64 hold."""
    squares: list[int] = []
    for start in range(0, len(sums), _ROWS_AT_ONCE):
        whole = sums[start : start + _ROWS_AT_ONCE].astype(np.int64)
        high, low = whole >> 20, whole & (_LOW - 1)
        parts = ((high * high).sum(axis=1), (high * low).sum(axis=1), (low * low).sum(axis=1))
        squares += [
            one * _LOW**2 + 2 * two * _LOW + three
            for one, two, three in zip(*(part.tolist() for part in parts), strict=True)
        ]
    return squares


def intra_distance(found: ClassSums) -> float:
    """Mean over classes of the mean cosine distance of two images of the class (SPEC 4.11).

    Empty:    a class of one image is left out; without any other class the distance is 0
    Differs:  the authors' code gives a class of one image the largest distance of the first two classes
    """
    means = [total / (pairs * 2 * _UNIT) for total, pairs in zip(found.apart, found.pairs, strict=True) if pairs]
    # Rounded unit vectors may be longer than 1 by 1e-8.
    return min(2.0, _mean(means))


def inter_distance(found: ClassSums) -> float:
    """Mean cosine distance of the directions of two class means (SPEC 4.11); classes of one image count.

    Empty:  one class has nothing to be far from: 0
    """
    means = read_directions(found.sums)
    return intra_distance(class_sums(means, np.zeros(len(means), dtype=np.int64)))


def alignment(found: ClassSums) -> float:
    """Mean squared Euclidean distance of two images of one class, over all such pairs (SPEC 4.12, alpha = 2).

    Empty:      0 without any pair of one class
    Reference:  Wang and Isola, Understanding Contrastive Representation Learning, ICML 2020, arXiv:2005.10242
    """
    pairs = sum(found.pairs)
    return min(4.0, sum(found.apart) / (pairs * _UNIT)) if pairs else 0.0


def euclidean_intra_distance(found: ClassSums) -> float:
    """Mean over classes of the mean Euclidean distance of two images of the class, as R's main text writes it.

    Empty:  as `intra_distance`; an embedding of zeros is the origin
    """
    return _mean([mean for mean, pairs in zip(found.euclidean, found.pairs, strict=True) if pairs])


def euclidean_inter_distance(found: ClassSums) -> float:
    """Mean Euclidean distance of two class means, which are not normalised, as R's main text writes it.

    Empty:  one class has nothing to be far from: 0
    """
    # On the grid of the directions the products stay exact.
    return _mean_euclidean(np.rint(found.sums / found.rows[:, None]))


def _mean_euclidean(points: Directions | Whole) -> float:
    count = len(points)
    total = 0
    for start in range(0, count, _ROWS_AT_ONCE):
        rows = _whole(points, start)
        for other in range(start, count, _ROWS_AT_ONCE):
            columns = _whole(points, other)
            squares = -2.0 * (rows @ columns.T)
            squares += (rows * rows).sum(axis=1)[:, None] + (columns * columns).sum(axis=1)
            np.sqrt(np.maximum(squares, 0.0, out=squares), out=squares)
            distances = np.rint(squares * _FINE).astype(np.int64)
            # A block on the diagonal holds each of its pairs twice.
            total += int(distances.sum()) * (1 if other == start else 2)
    return min(2.0, total / (count * (count - 1) * int(SCALE * _FINE))) if count > 1 else 0.0


def _whole(points: Directions | Whole, start: int) -> Whole:
    block = slice(start, start + _ROWS_AT_ONCE)
    return points.whole(block).numpy() if isinstance(points, Directions) else points[block]


def _mean(values: list[float]) -> float:
    # An exactly rounded sum does not depend on the order of the classes.
    return math.fsum(values) / len(values) if values else 0.0


def _ratio(intra: float, inter: float) -> float:
    return intra / max(inter, 1e-8)


class _Facts:
    """What a report needs to know of a score."""

    basis = "structure"
    higher_is_better = False
    bounds = (0.0, 2.0)
    is_default = True


@score("intra")
class Intra(_Facts):
    """Cosine distance within classes (SPEC 4.11)."""

    definition = "mean over classes of the mean cosine distance of two of its images; classes of one image left out"

    def __call__(self, found: ClassSums) -> float:
        """One value for the whole table."""
        return intra_distance(found)


@score("inter")
class Inter(_Facts):
    """Cosine distance between class means (SPEC 4.11)."""

    higher_is_better = True
    definition = "mean cosine distance of two class means"

    def __call__(self, found: ClassSums) -> float:
        """One value for the whole table."""
        return inter_distance(found)


@score("intra_inter")
class IntraInter(_Facts):
    """Distance within classes over distance between them, by cosine (SPEC 4.11)."""

    bounds = (0.0, float("inf"))
    definition = "intra / max(inter, 1e-8), by cosine distance"

    def __call__(self, found: ClassSums) -> float:
        """One value for the whole table."""
        return _ratio(intra_distance(found), inter_distance(found))


@score("intra_euclidean")
class IntraEuclidean(_Facts):
    """Euclidean distance within classes (SPEC 4.11)."""

    is_default = False
    definition = "mean over classes of the mean Euclidean distance of two of its unit vectors; classes of one left out"

    def __call__(self, found: ClassSums) -> float:
        """One value for the whole table."""
        return euclidean_intra_distance(found)


@score("inter_euclidean")
class InterEuclidean(_Facts):
    """Euclidean distance between class means (SPEC 4.11)."""

    higher_is_better = True
    is_default = False
    definition = "mean Euclidean distance of the mean unit vectors of two classes"

    def __call__(self, found: ClassSums) -> float:
        """One value for the whole table."""
        return euclidean_inter_distance(found)


@score("intra_inter_euclidean")
class IntraInterEuclidean(_Facts):
    """Distance within classes over distance between them, Euclidean (SPEC 4.11)."""

    bounds = (0.0, float("inf"))
    is_default = False
    definition = "intra_euclidean / max(inter_euclidean, 1e-8)"

    def __call__(self, found: ClassSums) -> float:
        """One value for the whole table."""
        return _ratio(euclidean_intra_distance(found), euclidean_inter_distance(found))


@score("alignment")
class Alignment(_Facts):
    """How near images of one class are (SPEC 4.12)."""

    bounds = (0.0, 4.0)
    definition = "mean squared Euclidean distance over all pairs of one class"

    def __call__(self, found: ClassSums) -> float:
        """One value for the whole table."""
        return alignment(found)
