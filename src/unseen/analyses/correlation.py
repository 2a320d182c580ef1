"""Correlation of two numbers over several methods, in value and in rank."""

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Correlation(NamedTuple):
    """Pearson's and Spearman's coefficients, and the number of points."""

    pearson: float
    spearman: float
    points: int

    def __str__(self) -> str:
        return f"Pearson {_signed(self.pearson)}, Spearman {_signed(self.spearman)}, {self.points} points"


def correlation(first: Sequence[float], second: Sequence[float]) -> Correlation:
    """Pearson's and Spearman's coefficients.

    Empty:      NaN for fewer than 3 points, and where one side is constant or not finite
    """
    from scipy.stats import NearConstantInputWarning, pearsonr, spearmanr

    sides = np.array([first, second], dtype=np.float64).reshape(2, -1)
    points = sides.shape[1]
    if points < 3 or not np.isfinite(sides).all() or (np.ptp(sides, axis=1) == 0).any():
        return Correlation(np.nan, np.nan, points)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NearConstantInputWarning)
        return Correlation(float(pearsonr(*sides).statistic), float(spearmanr(*sides).statistic), points)


def _signed(value: float) -> str:
    return f"{value:+.2f}" if np.isfinite(value) else "not defined"
