"""What people see in the terminal: one console, progress bars with time left, tables."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from unseen.core import progress as reporting
from unseen.core.text import duration

_LONG = 2.0  # seconds


def console() -> Console:
    """The console of the standard error stream: standard output is for results that programs read."""
    return Console(stderr=True, highlight=False)


class Bar:
    """One line of progress; `advance` moves it, `say` changes the words behind it."""

    def __init__(self, progress: Progress | None, description: str, total: int, done: int = 0) -> None:
        self._progress = progress
        self._total = max(total, 1)
        self._done = done
        self._before = done  # by an earlier process: says nothing about this one's speed
        self._shown = time.monotonic()
        self._started = time.monotonic()
        self._description = description
        self._words = ""
        self._task = progress.add_task(description, total=total, completed=done, words="") if progress else None

    def advance(self, steps: int = 1) -> None:
        """Move on by that many steps."""
        self._done += steps
        if self._progress is not None and self._task is not None:
            self._progress.advance(self._task, steps)
        elif time.monotonic() - self._shown > 15:
            # No terminal to redraw: a plain line now and then, so that a log shows life and time left.
            self._shown = time.monotonic()
            each = (self._shown - self._started) / max(self._done - self._before, 1)
            left = each * (self._total - self._done)
            console().print(
                f"{self._description} {self._done}/{self._total}, about {duration(left)} left {self._words}"
            )

    def set(self, done: int, total: int, words: str = "") -> None:
        """Stand at `done` of `total` steps, with words behind the bar."""
        self._total = max(total, 1)
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, total=self._total)
        self.say(words)
        self.advance(done - self._done)

    def say(self, words: str) -> None:
        """Show words behind the bar, such as the current loss."""
        self._words = words
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, words=words)


@contextmanager
def progress_bar(description: str, total: int, *, done: int = 0, quiet: bool = False) -> Iterator[Bar]:
    """A progress bar with time left on a terminal, a line every 15 seconds elsewhere, nothing when quiet.

    ``done`` steps were made before, by a process that this one continues.
    """
    if quiet:
        yield Bar(Progress(disable=True), description, total)
        return
    if not sys.stderr.isatty():
        yield Bar(None, description, total, done)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[words]}"),
    )
    with Progress(*columns, console=console()) as progress:
        yield Bar(progress, description, total, done)


@contextmanager
def bar_when_long(description: str) -> Iterator[reporting.Progress]:
    """A `progress(done, total, message)` function; a terminal shows its bar once the work has taken two seconds."""
    with ExitStack() as stack:
        started = time.monotonic()
        bar: Bar | None = None

        def progress(done: int, total: int, message: str) -> None:
            nonlocal bar
            if bar is None and sys.stderr.isatty() and time.monotonic() - started > _LONG:
                bar = stack.enter_context(progress_bar(description, total))
            if bar is not None:
                bar.set(done, total, message)

        yield progress


class Board:
    """Several lines of progress under one another, of which the first is the sum of the others."""

    def __init__(self, progress: Progress | None, *, quiet: bool) -> None:
        self._progress = progress
        self._quiet = quiet
        self._tasks: dict[str, TaskID] = {}
        self._shown = time.monotonic()

    def show(self, row: str, words: str, *, done: float, total: float) -> None:
        """Draw a line: its name, how much of it is done, and words behind it."""
        if self._progress is not None:
            if row not in self._tasks:
                self._tasks[row] = self._progress.add_task(row, total=total, words=words)
            self._progress.update(self._tasks[row], completed=done, total=total, words=words)
        elif not self._quiet and row == next(iter(self._tasks), row) and time.monotonic() - self._shown > 15:
            self._shown = time.monotonic()
            console().print(f"{row}: {words}", markup=False)
        self._tasks.setdefault(row, TaskID(0))

    def say(self, line: str) -> None:
        """Print a line above the bars."""
        if not self._quiet:
            (self._progress.console if self._progress else console()).print(line, markup=False, soft_wrap=True)


@contextmanager
def progress_board(*, quiet: bool = False) -> Iterator[Board]:
    """Lines of progress on a terminal; elsewhere the first of them every 15 seconds; nothing when quiet."""
    if quiet or not sys.stderr.isatty():
        yield Board(None, quiet=quiet)
        return
    plain = TextColumn("{task.description}", markup=False)
    words = TextColumn("{task.fields[words]}", markup=False)
    with Progress(plain, BarColumn(bar_width=24), words, console=console()) as progress:
        yield Board(progress, quiet=False)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> Table:
    """A table whose first `left` columns hold words and whose other columns hold numbers."""
    drawn = Table(title=title, title_justify="left", header_style="bold")
    for position, column in enumerate(columns):
        drawn.add_column(column, justify="left" if position < left else "right")
    for row in rows:
        drawn.add_row(*row)
    return drawn
