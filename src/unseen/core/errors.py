"""Errors whose message says who and what, what was got, and what would do."""

from typing import Any

_NOTHING = object()


class UnseenError(Exception):
    """Root of all errors that a user can cause and mend; the command line prints it and exits with 2.

    >>> print(ConfigError("Margin: beta must be a finite number > 0", got=-1))
    Margin: beta must be a finite number > 0; got -1
    >>> print(DataError("'birds' holds no image", use="a folder with one sub-folder per class"))
    'birds' holds no image; use a folder with one sub-folder per class
    """

    def __init__(self, what: str, *, got: Any = _NOTHING, use: str | None = None) -> None:
        parts = [what]
        if got is not _NOTHING:
            parts.append(f"got {got!r}")
        if use is not None:
            parts.append(f"use {use}")
        self.message = "; ".join(parts)
        super().__init__(self.message)


class ConfigError(UnseenError):
    """A setting that is unknown, of the wrong type or out of range."""


class DataError(UnseenError):
    """Images, tables or features that are missing, broken or unfit."""


class BatchError(UnseenError):
    """Embeddings or labels of the wrong shape, type or composition."""


class StoreError(UnseenError):
    """A results store that is damaged, foreign or busy."""


class CheckpointError(UnseenError):
    """A checkpoint that is damaged or belongs to another run."""


class NonFiniteError(UnseenError):
    """A loss, gradient or parameter that stopped being a number."""
