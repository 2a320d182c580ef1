"""Errors whose message says what is wrong, what was got, and what to do instead."""

_NOTHING = object()


class UnseenError(Exception):
    """Base class of all errors that a user can cause and fix; the command line prints the message and exits with 2.

    ``got`` is the offending value, ``hint`` a full sentence that says what to do.

    >>> print(ConfigError("Margin: beta must be a finite number > 0", got=-1))
    Margin: beta must be a finite number > 0; got -1
    >>> print(DataError("'birds' holds no image", hint="Use a folder with one subfolder per class."))
    'birds' holds no image. Use a folder with one subfolder per class.
    """

    def __init__(self, what: str, *, got: object = _NOTHING, hint: str | None = None) -> None:
        parts = [what]
        if got is not _NOTHING:
            parts.append(f"got {got!r}")
        self.message = "; ".join(parts) + (f". {hint}" if hint is not None else "")
        super().__init__(self.message)


class ConfigError(UnseenError):
    """A setting that is unknown, of the wrong type or out of range."""


class DataError(UnseenError):
    """Images, tables or features that are missing, broken or unsuitable."""


class BatchError(UnseenError):
    """Embeddings or labels of the wrong shape, type or composition."""


class StoreError(UnseenError):
    """A results store that is damaged, of another format, or in use."""


class CheckpointError(UnseenError):
    """A checkpoint that is damaged or belongs to another run."""


class NonFiniteError(UnseenError):
    """A loss, gradient or parameter that became NaN or infinite."""
