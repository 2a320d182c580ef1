"""Named arrays in one compressed file that needs no pickle."""

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unseen.core.errors import DataError
from unseen.core.files import write_bytes

LARGEST = 512 * 1024 * 1024  # bytes after unpacking; a file of ours holds a few MB


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write the arrays in one atomic step; same bytes for same arrays."""
    buffer = io.BytesIO()
    # Texts that are objects would need a pickle.
    kept = {name: array.astype(str) if array.dtype.hasobject else array for name, array in arrays.items()}
    np.savez_compressed(buffer, allow_pickle=False, **kept)
    write_bytes(path, buffer.getvalue())


def read_arrays(path: Path, what: str) -> dict[str, NDArray[Any]]:
    """Read what `write_arrays` wrote; `what` says in an error what should be there.

    Raises: DataError for a file that is missing, damaged, too large, or holds anything but arrays
    """
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > LARGEST:
                raise DataError(
                    f"{path} unpacks to more than {LARGEST} bytes", hint="Use a file written by this version."
                )
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except FileNotFoundError:
        raise DataError(f"no file {path}") from None
    except (zipfile.BadZipFile, ValueError, EOFError, TypeError, AttributeError, KeyError, OSError) as problem:
        raise DataError(f"{path} does not hold {what}: {problem}", hint="Use evaluate the run again.") from None
