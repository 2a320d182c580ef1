"""Bootstrap over classes: how much a score varies when the classes of the test set are drawn again.

Queries of one class are not independent: a hard class is hard for all its images. What a test set samples at random are
its classes, so the bootstrap draws classes with replacement. A class drawn twice counts twice; the gallery stays as it
is, because another gallery would be another task.

The draws depend only on the seed and the number of classes. Two models on one test set therefore see the same draws,
and the difference of their replicates is a paired comparison (`comparison`).
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from unseen.core.checks import check_between, check_count
from unseen.core.randomness import derive, numpy_generator
from unseen.evaluation.exact.arrays import Floats, Integers

Resampled = Callable[[Floats], Floats]
"""A function from how often each class was drawn (draws, classes) to the score in each draw."""

_NUMBERS_AT_ONCE = 2**21

GROUPS = 16
"""Number of class groups that are left out one at a time for scores that are not means over queries."""


@dataclass(frozen=True, kw_only=True)
class Bootstrap:
    """Settings of the bootstrap over classes: number of draws, confidence of the intervals, seed.

    Empty:  a test set of one class says nothing about other classes; its scores get no interval
    """

    draws: int = 1000
    confidence: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        check_count("Bootstrap", "draws", self.draws, at_least=20)
        check_between("Bootstrap", "confidence", self.confidence, 0.5, 0.9999)
        check_count("Bootstrap", "seed", self.seed, at_least=0)

    def weights(self, classes: int) -> Iterator[Floats]:
        """How often each class was drawn, in blocks (some draws, classes); each row sums to the number of classes."""
        generator = numpy_generator(derive(self.seed, "bootstrap", classes))
        rows = max(1, _NUMBERS_AT_ONCE // classes)
        for start in range(0, self.draws, rows):
            count = min(rows, self.draws - start)
            cells = generator.integers(classes, size=(count, classes)) + classes * np.arange(count)[:, None]
            weights = np.bincount(cells.ravel(), minlength=count * classes).reshape(count, classes)
            yield weights.astype(np.float64)

    def replicates(self, resampled: Mapping[str, Resampled], classes: int) -> dict[str, Floats]:
        """Each score in each draw."""
        if classes < 2 or not resampled:
            return {}
        # One pass over the draws for all scores: the draws of a large test set may not fit in memory.
        blocks = [{name: score(block) for name, score in resampled.items()} for block in self.weights(classes)]
        return {name: np.concatenate([block[name] for block in blocks]) for name in resampled}

    def interval(self, value: float, replicates: Floats, bounds: tuple[float, float]) -> tuple[float, float]:
        """The interval that covers `confidence` of the replicates.

        The quantiles are shifted so that the mean of the replicates is the score: scores that depend on the number of
        distinct classes (NMI, distances between classes) are otherwise biased by repeated classes.
        """
        tail = (1 - self.confidence) / 2
        low, high = np.quantile(replicates, [tail, 1 - tail]) - replicates.mean() + value
        return max(float(low), bounds[0]), min(float(high), bounds[1])


@dataclass(frozen=True, eq=False)
class Draws:
    """The replicates of the scores of one evaluation, and which bootstrap on which test set they come from."""

    replicates: Mapping[str, Floats]
    bootstrap: Bootstrap
    test_set: str


def fingerprint_of(classes: Integers, queries: Integers, gallery: Integers) -> str:
    """A hash of the number of queries and gallery items per class, which the draws of two models must share."""
    count = int(classes.max()) + 1
    sizes = [np.bincount(classes[rows], minlength=count).tolist() for rows in (queries, gallery)]
    return hashlib.sha256(repr(sizes).encode()).hexdigest()[:16]


def resample_by_class(values: Floats, classes: Integers, count: int) -> Resampled:
    """A score that is the mean of one value per query, as a function of the drawn classes.

    Values are sorted within a class before they are summed, so the order of the rows does not matter.
    """
    order = np.lexsort((values, classes))
    sums = np.bincount(classes[order], weights=values[order], minlength=count)
    sizes = np.bincount(classes, minlength=count).astype(np.float64)

    def resampled(weights: Floats) -> Floats:
        # Draws of classes without any query have no mean; impossible if every class has queries.
        return weights @ sums / np.maximum(weights @ sizes, 1)

    return resampled


def group_classes(count: int, *, groups: int = GROUPS) -> Integers:
    """A random group for each class, the same for every model; one class per group if there are few classes."""
    numbers = np.arange(count) % min(count, groups)
    return numpy_generator(derive(0, "groups of classes", count)).permutation(numbers)


def resample_by_jackknife(value: float, without: Floats, group_of_class: Integers) -> Resampled:
    r"""A score as a function of the drawn classes, from its values without each group of classes (jackknife).

    With G groups the pseudo-value of a group is :math:`G\,\theta - (G - 1)\,\theta_{-g}`: its own estimate of the
    score, to first order. A draw that holds the group's m classes w times on average moves the score by the
    pseudo-value's distance from their mean, times :math:`\sqrt m (w - 1) / G`: the replicates then have the variance of
    the delete-a-group jackknife.
    """
    groups = len(without)
    pseudo = groups * value - (groups - 1) * without
    sizes = np.bincount(group_of_class, minlength=groups)
    pull = (pseudo - pseudo.mean()) / groups / np.sqrt(np.maximum(sizes, 1))

    def resampled(weights: Floats) -> Floats:
        return value + (weights - 1) @ pull[group_of_class]

    return resampled
