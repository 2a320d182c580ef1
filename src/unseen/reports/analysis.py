"""An analysis: a picture, the numbers it shows, and what they say in words."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unseen.core.files import write_bytes, write_text
from unseen.reports.plotting import drawn
from unseen.reports.tables import csv_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """What a command prints and writes.

    ==========  ==============================================================
    name        of the files
    draw        makes the picture
    columns     of the numbers, as many as each of `rows` has
    shown       which columns a terminal shows
    remarks     sentences: correlations, differences, what must be kept in mind
    ==========  ==============================================================
    """

    name: str
    draw: "Callable[[], Figure]"
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    shown: Sequence[str]
    remarks: Sequence[str] = ()

    def lines(self) -> list[list[str]]:
        """The rows for a terminal."""
        places = [list(self.columns).index(column) for column in self.shown]
        return [[_short(row[place]) for place in places] for row in self.rows]


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def write_analysis(analysis: Analysis, folder: Path) -> tuple[Path, Path]:
    """Write the picture (PNG) and its numbers (CSV) into a folder; gives their paths."""
    picture, numbers = (folder / f"{analysis.name}.{ending}" for ending in ("png", "csv"))
    write_bytes(picture, drawn(analysis.draw))
    write_text(numbers, csv_of(analysis.columns, analysis.rows))
    return picture, numbers


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


def mean_and_deviation(values: np.ndarray) -> tuple[float, float]:
    """Mean and population standard deviation over seeds, as the papers report them."""
    return float(values.mean()), float(values.std())
