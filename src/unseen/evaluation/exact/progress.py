"""A progress bar for work that turns out to be long."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from unseen.core.console import ProgressBar, progress_bar

_SECONDS = 2.0


@contextmanager
def bar_when_long(description: str, total: int) -> Iterator[Callable[[int], None]]:
    """A function to tell finished steps to; a terminal shows a bar once the work has taken two seconds."""
    with ExitStack() as stack:
        started, done = time.monotonic(), 0
        bar: ProgressBar | None = None

        def progress(steps: int) -> None:
            nonlocal done, bar
            done += steps
            if bar is None and sys.stderr.isatty() and time.monotonic() - started > _SECONDS:
                bar = stack.enter_context(progress_bar(description, total))
            if bar is not None:
                bar.set(done, total)

        yield progress
