r"""How compact classes are and how far apart: distances within and between classes, and alignment.

Everything is computed from directions in integers (`exact.directions`) and sums of integers, so that no score depends
on the order of the rows, on block sizes or threads, not even in its last bit. Cosine distances need no pairs: for m
unit vectors :math:`\sum_{i<j} |e_i - e_j|^2 = m \sum_i |e_i|^2 - |\sum_i e_i|^2`, and
:math:`1 - S = |e_i - e_j|^2 / 2`.

An embedding of zeros has no direction: its cosine distance to everything is 1.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from unseen.core.registry import score
from unseen.evaluation.exact.arrays import Floats, Integers
from unseen.evaluation.exact.directions import SCALE, Directions, read_directions
from unseen.evaluation.scores.base import Score

_ROWS_AT_ONCE = 2048
_UNIT = 2**52
_LOW = 2**20
# Euclidean distances are rounded to 2^-36 and summed as integers; their mean is off by less than 1e-11.
_FINE = 2.0**10


@dataclass(frozen=True, eq=False)
class ClassSums:
    """What the distances within and between classes are computed from, one entry per class."""

    rows: Integers  # number of rows
    nonzero: Integers  # number of rows that are not zero
    sums: Floats  # sum of the directions (classes, dimensions), integers
    excess: Integers  # sum of |direction|^2 - 2^52 over the nonzero rows
    members: tuple[Directions, ...]  # the directions of the rows

    def select(self, classes: Integers) -> "ClassSums":
        """The sums of some of the classes; distances that are already computed are kept."""
        members = tuple(self.members[number] for number in classes)
        selected = ClassSums(
            self.rows[classes], self.nonzero[classes], self.sums[classes], self.excess[classes], members
        )
        for name in ("cosine_distances", "euclidean_means"):
            if name in self.__dict__:
                selected.__dict__[name] = [self.__dict__[name][number] for number in classes]
        return selected

    @cached_property
    def pairs(self) -> list[int]:
        """The number of pairs of each class."""
        return (self.rows * (self.rows - 1) // 2).tolist()

    @cached_property
    def cosine_distances(self) -> list[int]:
        """The sum of the cosine distances of the pairs of each class, times 2^53."""
        counts = zip(self.rows.tolist(), self.nonzero.tolist(), self.excess.tolist(), _squares(self.sums), strict=True)
        totals = []
        for rows, nonzero, excess, square in counts:
            pairs_of_zeros = (rows * (rows - 1) - nonzero * (nonzero - 1)) // 2
            totals.append(nonzero * (nonzero * _UNIT + excess) - square + pairs_of_zeros * 2 * _UNIT)
        return totals

    @cached_property
    def euclidean_means(self) -> list[float]:
        """The mean Euclidean distance of the pairs of each class; 0 without any."""
        return [_mean_euclidean(members) for members in self.members]


def class_sums(directions: Directions, classes: Integers) -> ClassSums:
    """The sums of all classes, which are numbered 0, 1, 2, ... without gaps."""
    count = int(classes.max()) + 1
    nonzero, excess = np.zeros((2, count), dtype=np.int64)
    sums = np.zeros((count, directions.width))
    order = np.argsort(classes, kind="stable")
    for start in range(0, len(order), _ROWS_AT_ONCE):
        rows = order[start : start + _ROWS_AT_ONCE]
        integers = directions.integers(rows).numpy()
        numbers, firsts = np.unique(classes[rows], return_index=True)
        squares = np.einsum("ij,ij->i", integers, integers).astype(np.int64)
        is_nonzero = squares > 0
        # Sums of fewer than 2^27 coordinates below 2^26 are exact.
        sums[numbers] += np.add.reduceat(integers, firsts)
        nonzero[numbers] += np.add.reduceat(is_nonzero.astype(np.int64), firsts)
        excess[numbers] += np.add.reduceat(np.where(is_nonzero, squares - _UNIT, 0), firsts)
    sizes = np.bincount(classes, minlength=count)
    members = tuple(directions.take(rows) for rows in np.split(order, np.cumsum(sizes)[:-1]))
    return ClassSums(sizes, nonzero, sums, excess, members)


def _squares(sums: Floats) -> list[int]:
    """|sum|^2 of each class as a Python integer, as it may exceed int64."""
    squares: list[int] = []
    for start in range(0, len(sums), _ROWS_AT_ONCE):
        integers = sums[start : start + _ROWS_AT_ONCE].astype(np.int64)
        high, low = integers >> 20, integers & (_LOW - 1)
        parts = ((high * high).sum(axis=1), (high * low).sum(axis=1), (low * low).sum(axis=1))
        squares += [
            one * _LOW**2 + 2 * two * _LOW + three
            for one, two, three in zip(*(part.tolist() for part in parts), strict=True)
        ]
    return squares


def intra_distance(sums: ClassSums) -> float:
    """Mean over classes of the mean cosine distance of two images of the class.

    Empty:      a class of one image is left out; 0 if no class has two images
    Reference:  Roth et al., Revisiting Training Strategies, ICML 2020, arXiv:2002.08473
    Differs:    the authors' code assigns a class of one image the largest distance of the first two classes
    """
    means = [
        total / (pairs * 2 * _UNIT) for total, pairs in zip(sums.cosine_distances, sums.pairs, strict=True) if pairs
    ]
    # Rounded unit vectors may be longer than 1 by 1e-8.
    return min(2.0, _mean(means))


def inter_distance(sums: ClassSums) -> float:
    """Mean cosine distance of two class means; classes of one image count.

    Empty:  0 for one class
    """
    means = read_directions(sums.sums)
    return intra_distance(class_sums(means, np.zeros(len(means), dtype=np.int64)))


def alignment(sums: ClassSums) -> float:
    """Mean squared Euclidean distance of two images of one class, over all such pairs (alpha = 2).

    Empty:      0 without any pair of one class
    Reference:  Wang and Isola, Understanding Contrastive Representation Learning, ICML 2020, arXiv:2005.10242
    """
    pairs = sum(sums.pairs)
    return min(4.0, sum(sums.cosine_distances) / (pairs * _UNIT)) if pairs else 0.0


def euclidean_intra_distance(sums: ClassSums) -> float:
    """Mean over classes of the mean Euclidean distance of two images of the class, as in the text of Roth et al.

    Empty:  as `intra_distance`; an embedding of zeros is the origin
    """
    return _mean([mean for mean, pairs in zip(sums.euclidean_means, sums.pairs, strict=True) if pairs])


def euclidean_inter_distance(sums: ClassSums) -> float:
    """Mean Euclidean distance of two class means, which are not normalised, as in the text of Roth et al.

    Empty:  0 for one class
    """
    # Rounded to integers, so that products stay exact.
    return _mean_euclidean(np.rint(sums.sums / sums.rows[:, None]))


def _mean_euclidean(points: Directions | Floats) -> float:
    count = len(points)
    total = 0
    for start in range(0, count, _ROWS_AT_ONCE):
        rows = _integers(points, start)
        for other in range(start, count, _ROWS_AT_ONCE):
            columns = _integers(points, other)
            squares = -2.0 * (rows @ columns.T)
            squares += (rows * rows).sum(axis=1)[:, None] + (columns * columns).sum(axis=1)
            np.sqrt(np.maximum(squares, 0.0, out=squares), out=squares)
            distances = np.rint(squares * _FINE).astype(np.int64)
            # A block on the diagonal holds each of its pairs twice.
            total += int(distances.sum()) * (1 if other == start else 2)
    return min(2.0, total / (count * (count - 1) * int(SCALE * _FINE))) if count > 1 else 0.0


def _integers(points: Directions | Floats, start: int) -> Floats:
    block = slice(start, start + _ROWS_AT_ONCE)
    return points.integers(block).numpy() if isinstance(points, Directions) else points[block]


def _mean(values: list[float]) -> float:
    # An exactly rounded sum does not depend on the order of the classes.
    return math.fsum(values) / len(values) if values else 0.0


@score("intra")
class Intra(Score):
    """Mean cosine distance of two images of one class, averaged over classes."""

    basis = "structure"
    higher_is_better = False
    bounds = (0.0, 2.0)
    collapsed = 0.0
    definition = "mean over classes of the mean cosine distance of two of its images; classes of one image left out"
    __call__ = staticmethod(intra_distance)


@score("inter")
class Inter(Score):
    """Mean cosine distance of two class means."""

    basis = "structure"
    bounds = (0.0, 2.0)
    collapsed = 0.0
    definition = "mean cosine distance of two class means"
    __call__ = staticmethod(inter_distance)


@score("intra_inter")
class IntraInter(Score):
    """Cosine distance within classes divided by that between class means; 0 if all embeddings are equal."""

    basis = "structure"
    higher_is_better = False
    bounds = (0.0, float("inf"))
    collapsed = 0.0
    definition = "intra / max(inter, 1e-8), by cosine distance"

    def __call__(self, sums: ClassSums) -> float:
        """One value for all classes."""
        return intra_distance(sums) / max(inter_distance(sums), 1e-8)


@score("intra_euclidean")
class IntraEuclidean(Intra):
    """Mean Euclidean distance of two images of one class, averaged over classes."""

    is_default = False
    definition = "mean over classes of the mean Euclidean distance of two of its unit vectors; classes of one left out"
    __call__ = staticmethod(euclidean_intra_distance)


@score("inter_euclidean")
class InterEuclidean(Inter):
    """Mean Euclidean distance of two class means."""

    is_default = False
    definition = "mean Euclidean distance of the mean unit vectors of two classes"
    __call__ = staticmethod(euclidean_inter_distance)


@score("intra_inter_euclidean")
class IntraInterEuclidean(IntraInter):
    """Euclidean distance within classes divided by that between class means; 0 if all embeddings are equal."""

    is_default = False
    definition = "intra_euclidean / max(inter_euclidean, 1e-8)"

    def __call__(self, sums: ClassSums) -> float:
        """One value for all classes."""
        return euclidean_intra_distance(sums) / max(euclidean_inter_distance(sums), 1e-8)


@score("alignment")
class Alignment(Score):
    """Mean squared Euclidean distance of two images of one class, over all such pairs."""

    basis = "structure"
    higher_is_better = False
    bounds = (0.0, 4.0)
    collapsed = 0.0
    definition = "mean squared Euclidean distance over all pairs of one class"
    __call__ = staticmethod(alignment)
