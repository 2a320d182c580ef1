"""Folders: the user's cache folder, and the lock of folders that several processes may use."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout
from platformdirs import user_cache_path

from unseen.core.errors import ConfigError


def cache_folder() -> Path:
    """The default cache folder; `XDG_CACHE_HOME` moves it, as for other programs.

    Raises:     ConfigError for a user without a home folder
    """
    try:
        return user_cache_path("unseen", appauthor=False)
    except RuntimeError as error:
        raise ConfigError(f"there is no folder for caches: {error}", hint="Set XDG_CACHE_HOME.") from None


@contextmanager
def exclusive(path: Path, *, when_busy: Callable[[], None]) -> Iterator[None]:
    """Hold the lock file at `path`. If another process holds it, call `when_busy`, then wait.

    `when_busy` may raise in order not to wait. A process that dies releases its locks.
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
