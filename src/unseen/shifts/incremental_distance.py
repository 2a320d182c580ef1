"""Frechet distances of a sequence of class splits: from one to the next only what changed is summed anew."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from unseen.evaluation.frechet import Moments, class_means, frechet_distance, moments
from unseen.shifts.class_swaps import ClassSplit, Labels, Values

Level = Literal["class", "sample"]

_ROWS_AT_ONCE = 8192


class RowsByClass:
    """Features with the row numbers of each class."""

    def __init__(self, features: NDArray[np.floating], labels: Labels) -> None:
        self.features = features
        self._order = np.argsort(labels, kind="stable")
        self._ends = np.cumsum(np.bincount(labels))

    def rows_of(self, classes: Labels) -> Labels:
        """The row numbers of these classes."""
        starts = np.concatenate([[0], self._ends])
        parts = [self._order[starts[label] : starts[label + 1]] for label in np.sort(classes)]
        return np.sort(np.concatenate(parts)) if parts else np.empty(0, np.int64)

    def moments_of(self, classes: Labels) -> Moments:
        """Count, mean and scatter of the rows of these classes."""
        rows = self.rows_of(classes)
        first, *others = (
            moments(self.features[rows[start : start + _ROWS_AT_ONCE]]) for start in range(0, len(rows), _ROWS_AT_ONCE)
        )
        return sum(others, start=first)


class IncrementalMoments:
    """The moments of one side of a sequence of class splits; rows of few classes stay rows."""

    def __init__(self, rows: RowsByClass) -> None:
        self.rows = rows
        self._classes = np.empty(0, np.int64)
        self._moments: Moments | None = None

    def update(self, classes: Labels) -> Moments | NDArray[np.floating]:
        """The moments of these classes; their rows where they are fewer than dimensions."""
        rows = self.rows.rows_of(classes)
        if len(rows) <= self.rows.features.shape[1]:
            return self.rows.features[rows]
        removed = np.setdiff1d(self._classes, classes)
        added = np.setdiff1d(classes, self._classes)
        # Classes that leave are subtracted; beyond a quarter that would cost accuracy and save little.
        if self._moments is None or 4 * (len(removed) + len(added)) > len(classes):
            self._moments = self.rows.moments_of(classes)
        else:
            if len(added):
                self._moments = self._moments + self.rows.moments_of(added)
            if len(removed):
                self._moments = self._moments - self.rows.moments_of(removed)
        self._classes = classes
        return self._moments


class ClassSplitDistances:
    """The Frechet distances between the two sides of class splits, of class means or of samples.

    Reference:  Milbich et al., NeurIPS 2021, arXiv:2107.09562
    """

    def __init__(self, features: NDArray[np.floating], labels: Labels) -> None:
        self.means: Values = class_means(features, labels)
        levels: dict[Level, RowsByClass] = {
            "class": RowsByClass(self.means, np.arange(len(self.means))),
            "sample": RowsByClass(features, labels),
        }
        self._sides = {level: (IncrementalMoments(rows), IncrementalMoments(rows)) for level, rows in levels.items()}

    def between(self, split: ClassSplit, level: Level) -> float:
        """The distance at a level; quickest for a split similar to the one before."""
        train, test = self._sides[level]
        return frechet_distance(train.update(split.train), test.update(split.test))
