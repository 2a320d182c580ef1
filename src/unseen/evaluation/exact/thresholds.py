"""Thresholds for float32 similarities with a bound on their error, and counts against them.

A float32 similarity is off by at most ``error_bound``. Where it clears a threshold by more, it counts as it is; where
it does not, the two rows are multiplied again in whole numbers. So the counts are those of the exact similarities.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from unseen.evaluation.exact.directions import SCALE

EXCLUDED = -4.0
"""A similarity below every threshold, for pairs that do not count."""

LEAST = np.int32(-(2**31))
"""Below the bits of every float."""


class Thresholds(NamedTuple):
    """Exact similarities to count against, ascending within each query, one query after the other.

    =========  ======================================================================================
    starts     query q has the thresholds from ``starts[q]`` to ``starts[q + 1]``
    exact      as computed: inner product in whole numbers times the item's inverse norm (float64)
    low, high  a float32 similarity up to ``low`` is surely below, one above ``high`` surely above
    bits       the bits of ``low`` as a whole number: positive floats are ordered as their bits are
    =========  ======================================================================================
    """

    starts: NDArray[np.int64]
    exact: NDArray[np.float64]
    low: NDArray[np.float32]
    high: NDArray[np.float32]
    bits: NDArray[np.int32]

    def of(self, queries: slice) -> "Thresholds":
        """Those of some queries, which are then numbered from 0."""
        starts = self.starts[queries.start : queries.stop + 1]
        slots = slice(int(starts[0]), int(starts[-1]))
        return Thresholds(starts - starts[0], self.exact[slots], self.low[slots], self.high[slots], self.bits[slots])


class Counts(NamedTuple):
    """For each threshold: similarities above it, and similarities equal to it."""

    above: NDArray[np.int64]
    tied: NDArray[np.int64]


class Side(NamedTuple):
    """The rows or the columns of a tile: unit vectors with their rests, and inverse norms."""

    single: NDArray[np.float32]
    rest_of: NDArray[np.int32]
    rest: NDArray[np.int8]
    inverse_norms: NDArray[np.float64]


def error_bound(width: int, inverse_norms: Tensor) -> float:
    r"""How far a float32 inner product of unit vectors can be from the exact similarity, in any order of summation.

    Let x, y be two rows of whole numbers / 2^26, and :math:`u = 2^{-24}`. Their lengths are within :math:`\delta` of 1
    (zeros apart, which have no error). Rounding the coordinates to float32 changes each product by a factor within
    :math:`(1 \pm u)^2`; they are multiples of 2^-26, so none is subnormal. A sum of d products, each with one rounding
    or two and added in any order, with fused multiplication or without, is off by at most :math:`\gamma_d \sum_k |x_k
    y_k|` with :math:`\gamma_d = d u / (1 - d u)`, and that sum is at most :math:`|x| |y| \le (1 + \delta)^2`. The
    exact similarity is divided by the length of the item, which moves it by at most :math:`(1 + \delta) \delta`.
    """
    unit = 2.0**-24
    gamma = width * unit / (1 - width * unit)
    lengths = inverse_norms[inverse_norms > 0].numpy() * SCALE
    delta = float(np.abs(1 / lengths - 1).max(initial=0.0))
    # A millionth more covers the float64 roundings of this line and of the exact similarity.
    return ((gamma * (1 + unit) ** 2 + 2 * unit + unit**2) * (1 + delta) ** 2 + (1 + delta) * delta) * (
        1 + 1e-6
    ) + 1e-15


def with_margins(starts: NDArray[np.int64], exact: NDArray[np.float64], margin: float) -> Thresholds:
    """The thresholds with what float32 similarities can be compared with."""
    # One step outwards makes up for rounding the bounds themselves to float32.
    low = np.nextafter((exact / SCALE - margin).astype(np.float32), np.float32(-np.inf))
    high = np.nextafter((exact / SCALE + margin).astype(np.float32), np.float32(np.inf))
    return Thresholds(starts, exact, low, high, np.where(low > 0, low.view(np.int32), LEAST))
