"""How sure a score is: its distribution when the classes of the test set are drawn anew.

Queries of one class are not independent of each other: a hard class is hard for all its images. What a test set has
drawn at random is its classes, so classes are what the bootstrap draws with replacement. A class drawn twice counts
twice; the gallery stays what it is, because another gallery would be another task.

The draws depend on the seed and the number of classes only. Two models on one test set therefore see the same draws,
and the difference of their replicates is a paired comparison (`comparison`).
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unseen.core.checks import check_between, check_count
from unseen.core.randomness import derive, numpy_generator

Values = NDArray[np.float64]
Resampled = Callable[[Values], Values]
"""From how often each class was drawn (draws, classes) to the score in each of these draws."""

_NUMBERS_AT_ONCE = 2**21

GROUPS = 16
"""Groups of classes that are left out one after the other where a score cannot be computed from classes."""


@dataclass(frozen=True, kw_only=True)
class Bootstrap:
    """How the classes are drawn anew, and how wide the interval is to be.

    Empty:  a test set of one class says nothing about other classes; its scores get no interval
    """

    draws: int = 1000
    confidence: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        check_count("Bootstrap", "draws", self.draws, at_least=20)
        check_between("Bootstrap", "confidence", self.confidence, 0.5, 0.9999)
        check_count("Bootstrap", "seed", self.seed, at_least=0)

    def weights(self, classes: int) -> Iterator[Values]:
        """How often each class was drawn, in blocks of draws (some, classes); each row sums to the classes."""
        generator = numpy_generator(derive(self.seed, "bootstrap", classes))
        rows = max(1, _NUMBERS_AT_ONCE // classes)
        for start in range(0, self.draws, rows):
            count = min(rows, self.draws - start)
            drawn = generator.integers(classes, size=(count, classes)) + classes * np.arange(count)[:, None]
            weights = np.bincount(drawn.ravel(), minlength=count * classes).reshape(count, classes)
            yield weights.astype(np.float64)

    def replicates(self, resampled: Mapping[str, Resampled], classes: int) -> dict[str, Values]:
        """Each score in each draw."""
        if classes < 2 or not resampled:
            return {}
        # One pass over the draws for all scores: the draws of a large test set need not be held.
        blocks = [{name: score(block) for name, score in resampled.items()} for block in self.weights(classes)]
        return {name: np.concatenate([block[name] for block in blocks]) for name in resampled}

    def interval(self, value: float, replicates: Values, bounds: tuple[float, float]) -> tuple[float, float]:
        """Where the score would lie on other classes of the same kind, in `confidence` of all cases.

        The quantiles of the replicates, moved so that their mean is the score: scores that depend on the number of
        distinct classes (NMI, distances between classes) are otherwise off by what repeated classes do to them.
        """
        tail = (1 - self.confidence) / 2
        low, high = np.quantile(replicates, [tail, 1 - tail]) - replicates.mean() + value
        return max(float(low), bounds[0]), min(float(high), bounds[1])


@dataclass(frozen=True, eq=False)
class Draws:
    """The replicates of the scores of one evaluation, and which bootstrap on which test set they come from."""

    replicates: Mapping[str, Values]
    bootstrap: Bootstrap
    test_set: str


def fingerprint_of(classes: NDArray[np.int64], queries: NDArray[np.int64], gallery: NDArray[np.int64]) -> str:
    """Names a test set by how many queries and answers each class has: what the draws of two models must share."""
    count = int(classes.max()) + 1
    sizes = [np.bincount(classes[rows], minlength=count).tolist() for rows in (queries, gallery)]
    return hashlib.sha256(repr(sizes).encode()).hexdigest()[:16]


def class_means(values: Values, classes: NDArray[np.int64], count: int) -> Resampled:
    """A score that is the mean of one value a query, as a function of the drawn classes.

    Sums within a class are taken in the order of the values, so the order of the rows does not matter.
    """
    order = np.lexsort((values, classes))
    sums = np.bincount(classes[order], weights=values[order], minlength=count)
    sizes = np.bincount(classes, minlength=count).astype(np.float64)

    def resampled(weights: Values) -> Values:
        # A draw of classes without any query has no mean; it cannot happen when every class asks.
        return weights @ sums / np.maximum(weights @ sizes, 1)

    return resampled


def deal_classes(count: int, *, groups: int = GROUPS) -> NDArray[np.int64]:
    """A group for each class, at random but the same for every model; a class each where there are few."""
    dealt = np.arange(count) % min(count, groups)
    return numpy_generator(derive(0, "groups of classes", count)).permutation(dealt)


def linearised(value: float, without: Values, group_of_class: NDArray[np.int64]) -> Resampled:
    r"""A score of which only its values without each group of classes are known, as a function of the drawn classes.

    With G groups the pseudo-value of a group is :math:`G\,\theta - (G - 1)\,\theta_{-g}`: what it says of the score by
    itself, to first order. A draw that holds the group's m classes w times on average moves the score by the
    pseudo-value's distance from their mean, times :math:`\sqrt m (w - 1) / G`: so the replicates have the variance
    that the delete-a-group jackknife finds.
    """
    groups = len(without)
    pseudo = groups * value - (groups - 1) * without
    sizes = np.bincount(group_of_class, minlength=groups)
    pull = (pseudo - pseudo.mean()) / groups / np.sqrt(np.maximum(sizes, 1))

    def resampled(weights: Values) -> Values:
        return value + (weights - 1) @ pull[group_of_class]

    return resampled
