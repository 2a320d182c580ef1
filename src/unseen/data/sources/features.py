"""Cached features: an npz file with `features` and `labels`, read without pickle."""

import zipfile
from pathlib import Path
from typing import Literal

import numpy as np

from unseen.core.errors import DataError
from unseen.core.registry import data
from unseen.data.catalogue import (
    SIDES,
    Catalogue,
    apply_small_class_policy,
    groups_of_classes,
    sort_class_names,
)
from unseen.data.item_readers import FeatureArray

_CHUNK = 4096


@data("features")
def features(
    path: str, *, root: str | None = None, small_classes: Literal["refuse", "drop", "keep"] = "refuse"
) -> Catalogue:
    """An npz file with `features` (N x D) and `labels` (N), and `paths`, `split`, `groups` if wanted.

    ===========  =========================================================================================
    features     finite numbers; kept in memory in the type they come in, given to models as float32
    labels       whole numbers of any size and sign, or text
    paths        of the pictures behind the rows, relative to `root` or the file's folder; only for people
                 to look at, they need not exist
    split        train, validation or test for each row
    groups       the group of each row's class
    ===========  =========================================================================================

    Raises:  `DataError` for anything missing, of the wrong shape or type, or not finite
    """
    file = Path(path).expanduser()
    arrays = _arrays(file)
    rows = arrays["features"]
    _check_features(file, rows)
    names = {key: _words(file, key, arrays[key], len(rows)) for key in arrays if key != "features"}
    kept, notes = apply_small_class_policy(str(file), names["labels"], small_classes)
    if len(kept) < len(rows):
        rows = rows[kept]
        names = {key: [words[position] for position in kept] for key, words in names.items()}

    classes = names["labels"]
    class_names = sort_class_names(set(classes))
    label_of = {name: label for label, name in enumerate(class_names)}
    paths = tuple(names["paths"]) if "paths" in names else None
    split = names.get("split")
    unknown = sorted(set(split or ()) - set(SIDES))
    if unknown:
        raise DataError(f"{file}: split must be train, validation or test", got=unknown[0])
    groups = names.get("groups")
    return Catalogue(
        name=file.stem,
        reader=FeatureArray(rows, root=Path(root).expanduser() if root is not None else file.parent, paths=paths),
        labels=np.array([label_of[name] for name in classes], np.int64),
        class_names=class_names,
        ids=_ids(paths, kept),
        class_groups=groups_of_classes(str(file), class_names, classes, groups) if groups else None,
        fixed_split=np.array(split) if split else None,
        notes=tuple(notes),
    )


def _arrays(file: Path) -> dict[str, np.ndarray]:
    needed, optional = ("features", "labels"), ("paths", "split", "groups")
    if not file.exists():
        raise DataError(f"no file {file}")
    if not file.is_file() or not zipfile.is_zipfile(file):
        raise DataError(f"{file} is not an npz file", hint="Use numpy.savez(path, features=..., labels=...).")
    arrays: dict[str, np.ndarray] = {}
    key = ""
    try:
        # Opened here, as NumPy leaves the file of a damaged archive open.
        with open(file, "rb") as opened, np.load(opened, allow_pickle=False) as archive:
            for key in needed:
                if key not in archive.files:
                    raise DataError(
                        f"{file} has no array '{key}' (it has: {', '.join(archive.files) or 'none'})",
                        hint="Use numpy.savez(path, features=..., labels=...).",
                    )
            for key in needed + optional:
                if key in archive.files:
                    arrays[key] = archive[key]
    except DataError:
        raise
    except Exception as problem:  # damaged archives raise whatever zipfile, zlib and NumPy happen to trip over
        if "allow_pickle" in str(problem):
            raise DataError(
                f"{file}: '{key}' holds Python objects", hint="Use an array of numbers or of text."
            ) from None
        raise DataError(f"{file}: '{key or 'the archive'}' cannot be read: {problem}") from None
    return arrays


def _check_features(file: Path, rows: np.ndarray) -> None:
    if rows.dtype.kind not in "fiu" or rows.dtype.itemsize > 8:
        raise DataError(f"{file}: features must be floats or whole numbers of at most 64 bit", got=str(rows.dtype))
    if rows.ndim != 2:
        raise DataError(f"{file}: features must have the shape (rows, dimensions)", got=rows.shape)
    if rows.size == 0:
        raise DataError(f"{file}: features are empty", got=rows.shape)
    bad: list[int] = []
    for start in range(0, len(rows), _CHUNK):
        with np.errstate(over="ignore"):  # a float64 beyond float32 becomes infinite, and is found here
            finite = np.isfinite(rows[start : start + _CHUNK].astype(np.float32)).all(axis=1)
        bad += [start + int(position) for position in np.flatnonzero(~finite)]
    if bad:
        count = "1 row holds" if len(bad) == 1 else f"{len(bad):,} rows hold"
        raise DataError(f"{file}: {count} values that are not finite in float32, the first is row {bad[0]} (from 0)")


def _words(file: Path, key: str, values: np.ndarray, rows: int) -> list[str]:
    if values.shape != (rows,):
        raise DataError(f"{file}: {key} must have one entry for each of {rows:,} rows", got=f"the shape {values.shape}")
    wanted = "whole numbers or text" if key == "labels" else "text"
    if values.dtype.kind not in ("iuU" if key == "labels" else "U"):
        raise DataError(f"{file}: {key} must be {wanted}", got=str(values.dtype))
    words = [str(value) for value in values.tolist()]
    empty = words.count("")
    if empty:
        raise DataError(f"{file}: {key} is empty in {empty:,} rows, the first is row {words.index('')} (from 0)")
    return words


def _ids(paths: tuple[str, ...] | None, kept: list[int]) -> tuple[str, ...]:
    if paths is None:
        return tuple(f"row {position}" for position in kept)
    if len(set(paths)) == len(paths):
        return paths
    return tuple(f"{path} (row {position})" for path, position in zip(paths, kept, strict=True))
