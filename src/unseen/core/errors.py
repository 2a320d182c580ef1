"""Errors whose message says who and what, what was got, and what would do."""

from typing import Any

_NOTHING = object()


class UnseenError(Exception):
    """Root of all errors that a user can cause and fix; the command line prints the message and exits with 2.

    ``hint`` is a full sentence that says what to do.

    >>> print(ConfigError("Margin: beta must be a finite number > 0", got=-1))
    Margin: beta must be a finite number > 0; got -1
    >>> print(DataError("'birds' holds no image", hint="Use a folder with one sub-folder per class."))
    'birds' holds no image. Use a folder with one sub-folder per class.
    """

    def __init__(self, what: str, *, got: Any = _NOTHING, hint: str | None = None) -> None:
        parts = [what]
        if got is not _NOTHING:
            parts.append(f"got {got!r}")
        self.message = "; ".join(parts) + (f". {hint}" if hint is not None else "")
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
