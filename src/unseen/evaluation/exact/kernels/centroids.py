"""What the loops of Lloyd's iterations work on: centroids, and the nearest of them for each point."""

from typing import NamedTuple

import numpy as np
from torch import Tensor

from unseen.evaluation.exact.arrays import Float32s, Floats, Integers
from unseen.evaluation.exact.directions import SCALE

# Rows in float64 that stay in the cache from one step to the next.
_ROWS_AT_ONCE = 256


class Centroids(NamedTuple):
    """Centroids as integers in float64, with float32 copies for the products, and their squared lengths."""

    integers: Floats
    float32: Float32s
    squares: Integers
    half_squares: Float32s

    @classmethod
    def of(cls, integers: Tensor) -> "Centroids":
        """Centroids at given points."""
        count = len(integers)
        placed = cls(
            np.empty(integers.shape),
            np.empty(integers.shape, np.float32),
            np.empty(count, np.int64),
            np.empty(count, np.float32),
        )
        for start in range(0, count, _ROWS_AT_ONCE):
            numbers = np.arange(start, min(start + _ROWS_AT_ONCE, count))
            placed.move(numbers, integers[numbers].numpy())
        return placed

    def move(self, numbers: Integers, integers: Floats) -> None:
        """Move some of the centroids."""
        squares = (integers * integers).sum(axis=1)
        self.integers[numbers] = integers
        self.float32[numbers] = integers / SCALE
        self.squares[numbers] = squares
        self.half_squares[numbers] = squares / (2 * SCALE**2)


class Nearest(NamedTuple):
    """For each point its centroid, the bracket of that one, and a bound on the brackets of all others.

    |x - c|^2 = |x|^2 - 2 (x.c - |c|^2 / 2): the nearest centroid has the largest bracket. Brackets here are off by at
    most the bound of `lloyd._error`; that of every other centroid is below ``rival`` plus that bound.
    """

    own: Integers
    value: Float32s
    rival: Float32s

    def of(self, points: slice) -> "Nearest":
        """The part of some points, to be written to."""
        return Nearest(self.own[points], self.value[points], self.rival[points])


class TwoBest(NamedTuple):
    """For each point the largest bracket of the centroids compared so far, which of them it is, and the second."""

    value: Float32s
    winner: Integers
    second: Float32s
