"""The file lock of folders and caches that several processes may use; a process that dies releases its locks."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout


@contextmanager
def exclusive(path: Path, *, when_busy: Callable[[], None]) -> Iterator[None]:
    """Hold the lock file at `path`. If another process holds it, call `when_busy`, then wait.

    `when_busy` may raise in order not to wait.
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
