"""The protocol of progress callbacks: `progress(done, total, message)`."""

from collections.abc import Callable
from typing import TypeAlias

Progress: TypeAlias = Callable[[int, int, str], None]


def no_progress(done: int, total: int, message: str) -> None:
    """Report nothing."""
