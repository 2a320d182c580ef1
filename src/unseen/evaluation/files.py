"""Files of an evaluation: embeddings and labels to read, arrays and bootstrap draws to write and read again."""

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unseen.core.errors import ConfigError, DataError
from unseen.core.files import write_bytes
from unseen.evaluation.intervals import Bootstrap, Draws

LARGEST = 512 * 1024 * 1024  # bytes after unpacking; a file of ours holds a few MB
_DRAWS = "the draws of an evaluation"


def read_mapped(path: Path) -> NDArray[np.number]:
    """Open a table of numbers in an npy file as a memory map, which may be larger than the memory.

    Raises: DataError for a file that is missing or holds no table of numbers
    """
    array = _load_npy(path)
    if array.ndim != 2 or array.dtype.kind not in "fiu":
        raise DataError(
            f"{path} does not hold a table of numbers",
            got=f"{array.dtype} {array.shape}",
            hint="Save an array of shape (images, dimensions).",
        )
    return array


def read_labels(path: Path, labels: Path | None) -> NDArray[np.int64] | list[str]:
    """Read the labels of the embeddings in `path`, from an npy file or a text file with one label per line.

    Raises: DataError for labels that are missing or damaged
    """
    if labels is None:
        raise DataError(
            f"{path} holds no labels", hint="Use --labels FILE, an npy file or a text file with one label per line."
        )
    if labels.suffix == ".npy":
        array = _load_npy(labels)
        if array.ndim != 1 or array.dtype.kind not in "iuUS":
            raise DataError(
                f"{labels} does not hold one label per embedding",
                got=f"{array.dtype} {array.shape}",
                hint="Save a one-dimensional array of integers or strings.",
            )
        return np.array(array)
    try:
        return labels.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise DataError(f"no file {labels}") from None
    except (OSError, UnicodeDecodeError) as problem:
        raise DataError(f"{labels} cannot be read as text: {problem}") from None


def _load_npy(path: Path) -> NDArray[Any]:
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise DataError(f"no file {path}") from None
    except (ValueError, EOFError, OSError) as problem:
        raise DataError(
            f"{path} is not an npy file: {problem}", hint="Write it with numpy.save(path, array)."
        ) from None
    return array


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write named arrays to one compressed npz file, atomically; equal arrays give equal bytes."""
    buffer = io.BytesIO()
    # Arrays of Python strings would need pickle.
    plain = {name: array.astype(str) if array.dtype.hasobject else array for name, array in arrays.items()}
    np.savez_compressed(buffer, allow_pickle=False, **plain)
    write_bytes(path, buffer.getvalue())


def read_arrays(path: Path, what: str) -> dict[str, np.ndarray]:
    """Read what `write_arrays` wrote; `what` names the expected content in error messages.

    Raises: DataError for a file that is missing, damaged, too large, or holds anything but arrays
    """
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > LARGEST:
                raise DataError(
                    f"{path} unpacks to more than {LARGEST} bytes", hint="Evaluate the run again with this version."
                )
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except FileNotFoundError:
        raise DataError(f"no file {path}") from None
    except (zipfile.BadZipFile, ValueError, EOFError, TypeError, AttributeError, KeyError, OSError) as problem:
        raise damaged(path, what, problem) from None


def damaged(path: Path, what: str, problem: object) -> DataError:
    """The error for a file that does not hold what it should."""
    return DataError(f"{path} does not hold {what}: {problem}", hint="Evaluate the run again.")


def save_draws(path: Path, draws: Draws) -> None:
    """Write the draws atomically, in full precision: rounded replicates would create ties in paired differences."""
    count = len(draws.replicates)
    replicates = np.array(list(draws.replicates.values()), dtype=np.float64)
    arrays = {
        "scores": np.array(list(draws.replicates), dtype=np.str_),
        "replicates": replicates.reshape(count, draws.bootstrap.draws if count else 0),
        "draws": np.array(draws.bootstrap.draws),
        "confidence": np.array(draws.bootstrap.confidence),
        "seed": np.array(draws.bootstrap.seed, dtype=np.int64),
        "test_set": np.array(draws.test_set, dtype=np.str_),
    }
    write_arrays(path, arrays)


def load_draws(path: Path) -> Draws:
    """Read what `save_draws` wrote.

    Raises: DataError for a file that is missing, damaged or holds anything else
    """
    arrays = read_arrays(path, _DRAWS)
    try:
        scores, replicates = arrays["scores"], arrays["replicates"]
        bootstrap = Bootstrap(
            draws=int(arrays["draws"]), confidence=float(arrays["confidence"]), seed=int(arrays["seed"])
        )
        test_set = str(arrays["test_set"][()])
    except (KeyError, TypeError, ValueError, IndexError, ConfigError) as problem:
        raise damaged(path, _DRAWS, problem) from None
    is_complete = scores.ndim == 1 and replicates.shape == (len(scores), bootstrap.draws if len(scores) else 0)
    if not is_complete or replicates.dtype != np.float64:
        raise damaged(path, _DRAWS, f"replicates of shape {replicates.shape}")
    return Draws({str(name): row for name, row in zip(scores, replicates, strict=True)}, bootstrap, test_set)
