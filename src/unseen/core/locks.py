"""One lock for folders and caches that several processes may want; it ends with the process that holds it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout


@contextmanager
def exclusive(path: Path, *, when_busy: Callable[[], None]) -> Iterator[None]:
    """Hold the lock file at `path`. If another process holds it, call `when_busy`, then wait.

    `when_busy` may raise to refuse instead of waiting. No lock is ever stale: a dead process holds none.
    """
    lock = FileLock(path)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        when_busy()
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
