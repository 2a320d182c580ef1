"""Frechet distances along a path of class divisions: from step to step only what moved is summed anew."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from unseen.evaluation.frechet import Moments, class_means, frechet_distance, moments
from unseen.shifts.class_swaps import Labels, Sides, Values

Level = Literal["class", "sample"]

_ROWS_AT_ONCE = 8192


class ClassRows:
    """Features with the rows of each class, from which sets of classes are taken."""

    def __init__(self, features: NDArray[np.floating], labels: Labels) -> None:
        self.features = features
        self._order = np.argsort(labels, kind="stable")
        self._ends = np.cumsum(np.bincount(labels))

    def of(self, classes: Labels) -> Labels:
        """The rows of these classes."""
        starts = np.concatenate([[0], self._ends])
        parts = [self._order[starts[label] : starts[label + 1]] for label in np.sort(classes)]
        return np.sort(np.concatenate(parts)) if parts else np.empty(0, np.int64)

    def moments_of(self, classes: Labels) -> Moments:
        """Count, mean and scatter of the rows of these classes."""
        rows = self.of(classes)
        parts = [moments(self.features[rows[at : at + _ROWS_AT_ONCE]]) for at in range(0, len(rows), _ROWS_AT_ONCE)]
        joined = parts[0]
        for part in parts[1:]:
            joined = joined + part
        return joined


class Tracked:
    """One side of a path at one level: `follow` gives what `frechet_distance` needs of the side's next classes."""

    def __init__(self, rows: ClassRows) -> None:
        self.rows = rows
        self._classes = np.empty(0, np.int64)
        self._moments: Moments | None = None

    def follow(self, classes: Labels) -> Moments | NDArray[np.floating]:
        """The rows of these classes where they are fewer than dimensions, else their moments."""
        chosen = self.rows.of(classes)
        if len(chosen) <= self.rows.features.shape[1]:
            return self.rows.features[chosen]
        gone = np.setdiff1d(self._classes, classes)
        came = np.setdiff1d(classes, self._classes)
        # What leaves is subtracted; beyond a quarter that would cost accuracy and save little.
        if self._moments is None or 4 * (len(gone) + len(came)) > len(classes):
            self._moments = self.rows.moments_of(classes)
        else:
            if len(came):
                self._moments = self._moments + self.rows.moments_of(came)
            if len(gone):
                self._moments = self._moments - self.rows.moments_of(gone)
        self._classes = classes
        return self._moments


class Distances:
    """The Frechet distances between the sides of a division, of class means and of samples (SPEC 5.1)."""

    def __init__(self, features: NDArray[np.floating], labels: Labels) -> None:
        self.means: Values = class_means(features, labels)
        levels: dict[Level, ClassRows] = {
            "class": ClassRows(self.means, np.arange(len(self.means))),
            "sample": ClassRows(features, labels),
        }
        self._tracked = {level: (Tracked(rows), Tracked(rows)) for level, rows in levels.items()}

    def between(self, sides: Sides, level: Level) -> float:
        """The distance at a level; quickest for a division near to the one asked for before."""
        train, test = self._tracked[level]
        return frechet_distance(train.follow(sides.train), test.follow(sides.test))
