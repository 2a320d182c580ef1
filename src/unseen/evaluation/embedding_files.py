"""Embeddings and labels in npy files, which may be larger than the memory."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unseen.core.errors import DataError


def read_mapped(path: Path) -> NDArray[Any]:
    """The array of an npy file, mapped: rows are read when they are needed.

    Raises: DataError for a file that is missing or holds no table of numbers
    """
    array = _loaded(path)
    if array.ndim != 2 or array.dtype.kind not in "fiu":
        raise DataError(
            f"{path} does not hold a table of numbers",
            got=f"{array.dtype} {array.shape}",
            hint="Use (images, dimensions).",
        )
    return array


def read_labels(path: Path, labels: Path | None) -> NDArray[np.int64] | list[str]:
    """The labels of the embeddings in `path`: an npy file, or a text with one label a line.

    Raises: DataError for labels that are missing or damaged
    """
    if labels is None:
        raise DataError(
            f"{path} holds no labels", hint="Use --labels FILE, an npy file or a text with one label a line."
        )
    if labels.suffix == ".npy":
        array = _loaded(labels)
        if array.ndim != 1 or array.dtype.kind not in "iuUS":
            raise DataError(
                f"{labels} does not hold one label an embedding",
                got=f"{array.dtype} {array.shape}",
                hint="Use a row of whole numbers or texts.",
            )
        return np.array(array)
    try:
        return labels.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise DataError(f"no file {labels}") from None
    except (OSError, UnicodeDecodeError) as problem:
        raise DataError(f"{labels} cannot be read as a text: {problem}") from None


def _loaded(path: Path) -> NDArray[Any]:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise DataError(f"no file {path}") from None
    except (ValueError, EOFError, OSError) as problem:
        raise DataError(f"{path} is not an npy file: {problem}", hint="Use numpy.save(path, array).") from None
