"""An analysis: a picture, the numbers it shows, and what they say in words."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unseen.core.csv_table import csv_of
from unseen.core.files import write_bytes, write_text
from unseen.figures.style import render_png

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from PIL.Image import Image


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """What a command prints and writes.

    ==========  ==============================================================
    name        of the files
    draw        makes the picture
    columns     of the numbers, as many as each of `rows` has
    shown       which columns a terminal shows, or the heads of `as_shown`
    as_shown    rows for a terminal that are no columns of the numbers
    remarks     sentences: correlations, differences, what must be kept in mind
    ==========  ==============================================================
    """

    name: str
    draw: "Callable[[], Figure]"
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    shown: Sequence[str]
    as_shown: Sequence[Sequence[str]] = ()
    remarks: Sequence[str] = ()

    def lines(self) -> list[list[str]]:
        """The rows for a terminal."""
        if self.as_shown:
            return [list(row) for row in self.as_shown]
        places = [list(self.columns).index(column) for column in self.shown]
        return [[_short(row[place]) for place in places] for row in self.rows]


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def write_analysis(analysis: Analysis, folder: Path) -> tuple[Path, Path]:
    """Write the picture (PNG, which holds the remarks) and its numbers (CSV) into a folder; gives their paths."""
    picture, numbers = (folder / f"{analysis.name}.{ending}" for ending in ("png", "csv"))
    write_bytes(picture, render_png(analysis.draw, "\n".join(analysis.remarks)))
    write_text(numbers, csv_of(analysis.columns, analysis.rows))
    return picture, numbers


def remarks_of(picture: "Image") -> tuple[str, ...]:
    """The remarks that `write_analysis` put into a picture."""
    held = picture.info.get("Description", "")
    return tuple(held.splitlines()) if isinstance(held, str) else ()


def mean_and_deviation(values: np.ndarray) -> tuple[float, float]:
    """Mean and population standard deviation over seeds, as the papers report them."""
    return float(values.mean()), float(values.std())
