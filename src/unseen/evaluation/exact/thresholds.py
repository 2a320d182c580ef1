"""Thresholds for float32 similarities with a bound on their error, and counts against them."""

from typing import NamedTuple

import numpy as np
from torch import Tensor

from unseen.evaluation.exact.arrays import Float32s, Floats, Int8s, Int32s, Integers
from unseen.evaluation.exact.directions import SCALE, Units

EXCLUDED = -4.0
"""A similarity below every threshold, for pairs that do not count."""

LEAST = np.int32(-(2**31))
"""Below the bits of every float."""


class Thresholds(NamedTuple):
    """Exact similarities to count against, ascending within each query, the queries one after another."""

    starts: Integers  # query q has the thresholds from starts[q] to starts[q + 1]
    exact: Floats  # inner product in integers times the item's inverse norm
    low: Float32s  # a float32 similarity <= low is certainly below
    high: Float32s  # and one > high certainly above
    bits: Int32s  # the bits of low as an integer: positive floats are ordered like their bits

    def of(self, queries: slice) -> "Thresholds":
        """The thresholds of some queries, renumbered from 0."""
        starts = self.starts[queries.start : queries.stop + 1]
        slots = slice(int(starts[0]), int(starts[-1]))
        return Thresholds(starts - starts[0], self.exact[slots], self.low[slots], self.high[slots], self.bits[slots])


class Counts(NamedTuple):
    """For each threshold: the number of similarities above it, and equal to it."""

    above: Integers
    tied: Integers


class Side(NamedTuple):
    """The rows or the columns of a tile as compiled loops take them: `Units` as NumPy arrays, and inverse norms."""

    float32: Float32s
    remainder_index: Int32s
    remainders: Int8s
    inverse_norms: Floats


def side(units: Units, inverse_norms: Floats) -> Side:
    """Unit vectors with their inverse norms for a compiled loop."""
    return Side(units.float32.numpy(), units.remainder_index, units.remainders, inverse_norms)


def error_bound(width: int, inverse_norms: Tensor) -> float:
    r"""Largest difference of a float32 inner product of unit vectors from the exact similarity.

    It holds for any order of summation. Let x, y be two rows of integers / 2^26, and :math:`u = 2^{-24}`. Their lengths
    are within :math:`\delta` of 1 (rows of zeros have no error). Rounding the coordinates to float32 changes each
    product by a factor within :math:`(1 \pm u)^2`; they are multiples of 2^-26, so none is subnormal. A sum of d
    products, each rounded once or twice and added in any order, with fused multiplication or without, is off by at most
    :math:`\gamma_d \sum_k |x_k y_k|` with :math:`\gamma_d = d u / (1 - d u)`, and that sum is at most :math:`|x| |y|
    \le (1 + \delta)^2`. The exact similarity is divided by the length of the item, which changes it by at most
    :math:`(1 + \delta) \delta`.
    """
    unit = 2.0**-24
    gamma = width * unit / (1 - width * unit)
    lengths = inverse_norms[inverse_norms > 0].numpy() * SCALE
    delta = float(np.abs(1 / lengths - 1).max(initial=0.0))
    bound = (gamma * (1 + unit) ** 2 + 2 * unit + unit**2) * (1 + delta) ** 2 + (1 + delta) * delta
    # A millionth more covers the float64 rounding of this bound and of the exact similarity.
    return bound * (1 + 1e-6) + 1e-15


def with_margins(starts: Integers, exact: Floats, margin: float) -> Thresholds:
    """Thresholds with the float32 bounds that similarities are compared with."""
    # One step outwards makes up for rounding the bounds themselves to float32.
    low = np.nextafter((exact / SCALE - margin).astype(np.float32), np.float32(-np.inf))
    high = np.nextafter((exact / SCALE + margin).astype(np.float32), np.float32(np.inf))
    return Thresholds(starts, exact, low, high, np.where(low > 0, low.view(np.int32), LEAST))
