"""What goes into an analysis of a finished study, and what comes out of it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from unseen.core.errors import DataError
from unseen.core.progress import Progress, no_progress
from unseen.studies import Store
from unseen.studies.runner import STORE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Value: TypeAlias = str | bool | int | float | None


@dataclass(frozen=True)
class AnalysisInputs:
    """What the framework hands to every analysis: the study's folder, the folder of caches, and a progress callback."""

    folder: Path
    cache: Path | None = None
    progress: Progress = no_progress

    def open_store(self) -> Store:
        """The results of the study.

        Raises:     DataError for a folder without a study
        """
        if not (self.folder / STORE).is_file():
            raise DataError(f"{self.folder} is no folder of a study", hint="Use a folder that `unseen study` wrote.")
        return Store(self.folder / STORE)


@dataclass(frozen=True, kw_only=True)
class AnalysisResult:
    """A table of numbers, what they say in words, and the picture of them.

    ===============  ==========================================================================
    draw             makes the picture; called once, in the look of all pictures
    columns, rows    the numbers; None for missing values
    remarks          sentences: correlations, differences, warnings
    printed_columns  what a terminal shows: some of `columns`, or the heads of `printed_rows`
    printed_rows     rows for a terminal where they are not simply some columns of `rows`
    variant          tells apart the files of one analysis, such as the score: structure-recall-at-1
    ===============  ==========================================================================
    """

    draw: "Callable[[], Figure]"
    columns: Sequence[str]
    rows: Sequence[Sequence[Value]]
    remarks: Sequence[str] = ()
    printed_columns: Sequence[str] = ()
    printed_rows: Sequence[Sequence[str]] | None = None
    variant: str = ""

    def terminal_rows(self) -> list[list[str]]:
        """The rows for a terminal, a string for each of `printed_columns`."""
        if self.printed_rows is not None:
            return [list(row) for row in self.printed_rows]
        indices = [list(self.columns).index(column) for column in self.printed_columns]
        return [[short_value(row[index]) for index in indices] for row in self.rows]


def finite_or_none(value: Value) -> Value:
    """The value, or None for a number that is not finite."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def short_value(value: Value) -> str:
    """A value for people: numbers with four significant digits, missing values empty.

    >>> [short_value(value) for value in (0.123456, 12, None, "margin")]
    ['0.1235', '12', '', 'margin']
    """
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
