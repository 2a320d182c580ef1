"""Correlations: how two numbers of several methods go together, in value and in rank."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Correlation(NamedTuple):
    """How two numbers of several methods, or pairs of methods, go together: in value and in rank."""

    pearson: float
    spearman: float
    points: int

    def __str__(self) -> str:
        return f"Pearson {_signed(self.pearson)}, Spearman {_signed(self.spearman)}, {self.points} points"


def correlation(first: Sequence[float], second: Sequence[float]) -> Correlation:
    """Pearson's and Spearman's coefficients.

    Empty:      NaN for fewer than 3 points, and where one side is constant or not finite
    """
    from scipy.stats import rankdata

    sides = np.array([first, second], dtype=np.float64).reshape(2, -1)
    if sides.shape[1] < 3 or not np.isfinite(sides).all() or (np.ptp(sides, axis=1) == 0).any():
        return Correlation(np.nan, np.nan, sides.shape[1])
    pearson, spearman = (float(np.corrcoef(values)[0, 1]) for values in (sides, rankdata(sides, axis=1)))
    return Correlation(pearson, spearman, sides.shape[1])


def _signed(value: float) -> str:
    return f"{value:+.2f}" if np.isfinite(value) else "not defined"
