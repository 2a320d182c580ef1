"""Frechet distances of a sequence of class splits: from one to the next only what changed is summed anew."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from unseen.evaluation.frechet import Moments, class_means, frechet_distance, moments
from unseen.shifts.class_swaps import ClassSplit, Labels, Values

Level = Literal["class", "sample"]

_ROWS_AT_ONCE = 8192


class IncrementalMoments:
    """The moments of one side of a sequence of class splits; rows of few classes stay rows."""

    def __init__(self, features: NDArray[np.floating], labels: Labels) -> None:
        self._features = features
        self._labels = labels
        self._classes = np.empty(0, np.int64)
        self._moments: Moments | None = None

    def update(self, classes: Labels) -> Moments | NDArray[np.floating]:
        """The moments of these classes; their rows where they are fewer than dimensions."""
        rows = self._rows_of(classes)
        if len(rows) <= self._features.shape[1]:
            return self._features[rows]
        removed = np.setdiff1d(self._classes, classes)
        added = np.setdiff1d(classes, self._classes)
        # Classes that leave are subtracted; beyond a quarter that would cost accuracy and save little.
        if self._moments is None or 4 * (len(removed) + len(added)) > len(classes):
            self._moments = self._sum(rows)
        else:
            if len(added):
                self._moments = self._moments + self._sum(self._rows_of(added))
            if len(removed):
                self._moments = self._moments - self._sum(self._rows_of(removed))
        self._classes = classes
        return self._moments

    def _rows_of(self, classes: Labels) -> Labels:
        return np.flatnonzero(np.isin(self._labels, classes))

    def _sum(self, rows: Labels) -> Moments:
        parts = (rows[start : start + _ROWS_AT_ONCE] for start in range(0, len(rows), _ROWS_AT_ONCE))
        first, *others = (moments(self._features[part]) for part in parts)
        return sum(others, start=first)


class ClassSplitDistances:
    """The Frechet distances between the two sides of class splits, of class means or of samples.

    Reference:  Milbich et al., NeurIPS 2021, arXiv:2107.09562
    """

    def __init__(self, features: NDArray[np.floating], labels: Labels) -> None:
        self.means: Values = class_means(features, labels)
        rows = {"class": (self.means, np.arange(len(self.means))), "sample": (features, labels)}
        self._sides = {level: (IncrementalMoments(*rows[level]), IncrementalMoments(*rows[level])) for level in rows}

    def between(self, split: ClassSplit, level: Level) -> float:
        """The distance at a level; quickest for a split similar to the one before."""
        train, test = self._sides[level]
        return frechet_distance(train.update(split.train), test.update(split.test))
