"""Terminal output: the console, progress bars with the time left, and tables."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from rich import progress as rich_progress
from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.table import Table

from unseen.core import progress as reporting
from unseen.core.text import duration

LOG_INTERVAL = 15.0
"""Seconds between two lines of progress where there is no terminal to redraw."""
_LONG = 2.0  # seconds


def console() -> Console:
    """The console of the standard error stream; standard output is for results that programs read."""
    return Console(stderr=True, highlight=False)


class ProgressBar:
    """One line of progress. Its method `set` is a `core.progress.Progress`."""

    def __init__(self, display: rich_progress.Progress | None, description: str, total: int, done: int = 0) -> None:
        self._display = display
        self._description = description
        self._total = max(total, 1)
        self._done = self._done_at_start = done  # steps of an earlier process say nothing about the speed of this one
        self._message = ""
        self._started = self._last_logged = time.monotonic()
        self._task = None if display is None else display.add_task(description, total=total, completed=done, message="")

    def advance(self, steps: int = 1) -> None:
        """Count further steps."""
        self.set(self._done + steps, self._total, self._message)

    def set(self, done: int, total: int, message: str = "") -> None:
        """Show `done` of `total` steps, and a message such as the current loss."""
        self._done, self._total, self._message = done, max(total, 1), message
        if self._display is not None and self._task is not None:
            self._display.update(self._task, completed=done, total=self._total, message=message)
        elif time.monotonic() - self._last_logged > LOG_INTERVAL:
            self._last_logged = time.monotonic()
            left = duration(self._seconds_left())
            console().print(f"{self._description} {done}/{total}, about {left} left {message}")

    def _seconds_left(self) -> float:
        per_step = (time.monotonic() - self._started) / max(self._done - self._done_at_start, 1)
        return per_step * (self._total - self._done)


@contextmanager
def progress_bar(description: str, total: int, *, done: int = 0, quiet: bool = False) -> Iterator[ProgressBar]:
    """A progress bar with the time left on a terminal, a line every 15 seconds elsewhere, nothing if quiet.

    ``done`` is the number of steps that an earlier process completed, if this one resumes its work.
    """
    if quiet:
        yield ProgressBar(rich_progress.Progress(disable=True), description, total)
    elif not sys.stderr.isatty():
        yield ProgressBar(None, description, total, done)
    else:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            rich_progress.MofNCompleteColumn(),
            rich_progress.TimeElapsedColumn(),
            TextColumn("left"),
            rich_progress.TimeRemainingColumn(),
            TextColumn("{task.fields[message]}"),
        )
        with rich_progress.Progress(*columns, console=console()) as display:
            yield ProgressBar(display, description, total, done)


@contextmanager
def bar_when_long(description: str) -> Iterator[reporting.Progress]:
    """A `progress(done, total, message)` function; a terminal shows its bar once the work has taken two seconds."""
    with ExitStack() as stack:
        started = time.monotonic()
        bar: ProgressBar | None = None

        def progress(done: int, total: int, message: str) -> None:
            nonlocal bar
            if bar is None and sys.stderr.isatty() and time.monotonic() - started > _LONG:
                bar = stack.enter_context(progress_bar(description, total))
            if bar is not None:
                bar.set(done, total, message)

        yield progress


class ProgressBoard:
    """Several progress bars, one per row; the first row sums up the others."""

    def __init__(self, display: rich_progress.Progress | None, *, quiet: bool) -> None:
        self._display = display
        self._quiet = quiet
        self._tasks: dict[str, rich_progress.TaskID] = {}
        self._last_logged = time.monotonic()

    def show(self, row: str, message: str, *, done: float, total: float) -> None:
        """Draw a row: its name, the part that is done, and a message behind it."""
        if self._display is not None:
            if row not in self._tasks:
                self._tasks[row] = self._display.add_task(row, total=total, message=message)
            self._display.update(self._tasks[row], completed=done, total=total, message=message)
            return
        is_first = row == next(iter(self._tasks), row)
        self._tasks.setdefault(row, rich_progress.TaskID(0))
        if is_first and not self._quiet and time.monotonic() - self._last_logged > LOG_INTERVAL:
            self._last_logged = time.monotonic()
            console().print(f"{row}: {message}", markup=False)

    def say(self, line: str) -> None:
        """Print a line above the bars."""
        if not self._quiet:
            (self._display.console if self._display else console()).print(line, markup=False, soft_wrap=True)


@contextmanager
def progress_board(*, quiet: bool = False) -> Iterator[ProgressBoard]:
    """Rows of progress on a terminal; elsewhere the first of them every 15 seconds; nothing if quiet."""
    if quiet or not sys.stderr.isatty():
        yield ProgressBoard(None, quiet=quiet)
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[message]}", markup=False),
    )
    with rich_progress.Progress(*columns, console=console()) as display:
        yield ProgressBoard(display, quiet=False)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> Table:
    """A table whose first `left` columns are text, aligned left; the others are numbers, aligned right."""
    drawn = Table(title=title, title_justify="left", header_style="bold")
    for index, column in enumerate(columns):
        drawn.add_column(column, justify="left" if index < left else "right")
    for row in rows:
        drawn.add_row(*row)
    return drawn
