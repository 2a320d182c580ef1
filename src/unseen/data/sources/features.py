"""Cached features: an npz file with `features` and `labels`, read without pickle."""

import zipfile
from pathlib import Path

import numpy as np

from unseen.core.errors import DataError
from unseen.core.registry import data
from unseen.data.catalogue import SIDES, Catalogue, SmallClasses, apply_small_class_policy, encode_labels
from unseen.data.item_readers import FeatureArray

_CHUNK = 4096
_HOW_TO_WRITE = "Write it by numpy.savez(path, features=..., labels=...)."


@data("features")
def features(path: str, *, root: str | None = None, small_classes: SmallClasses = "refuse") -> Catalogue:
    """An npz file with `features` (N x D) and `labels` (N), and optionally `paths`, `split`, `groups`.

    ===========  =========================================================================================
    features     finite numbers; kept in memory in their dtype, passed to models as float32
    labels       integers or strings
    paths        of the images behind the rows, relative to `root` or the file's folder; only for display,
                 they need not exist
    split        train, validation or test for each row
    groups       the group of each row's class
    ===========  =========================================================================================

    `small_classes` is what to do with classes of a single row: "refuse", "drop" or "keep".

    Raises:  `DataError` for arrays that are missing, of the wrong shape or type, or not finite
    """
    file = Path(path).expanduser()
    arrays = _arrays(file)
    rows = arrays["features"]
    check_features(file, rows)
    columns = {key: _strings(file, key, arrays[key], len(rows)) for key in arrays if key != "features"}
    positions, notes = apply_small_class_policy(str(file), columns["labels"], small_classes)
    if len(positions) < len(rows):
        rows = rows[positions]
        columns = {key: [values[position] for position in positions] for key, values in columns.items()}

    class_names, labels, class_groups = encode_labels(str(file), columns["labels"], columns.get("groups"))
    paths = tuple(columns["paths"]) if "paths" in columns else None
    split = columns.get("split")
    unknown = sorted(set(split or ()) - set(SIDES))
    if unknown:
        raise DataError(f"{file}: split must be train, validation or test", got=unknown[0])
    return Catalogue(
        name=file.stem,
        reader=FeatureArray(rows, root=Path(root).expanduser() if root is not None else file.parent, paths=paths),
        labels=labels,
        class_names=class_names,
        ids=_ids(paths, positions),
        class_groups=class_groups,
        fixed_split=np.array(split) if split else None,
        notes=tuple(notes),
    )


def _arrays(file: Path) -> dict[str, np.ndarray]:
    needed, optional = ("features", "labels"), ("paths", "split", "groups")
    if not file.exists():
        raise DataError(f"no file {file}", hint=_HOW_TO_WRITE)
    if not file.is_file() or not zipfile.is_zipfile(file):
        raise DataError(f"{file} is not an npz file", hint=_HOW_TO_WRITE)
    arrays: dict[str, np.ndarray] = {}
    key = "the archive"
    try:
        # Opened here, as NumPy leaves the file of a damaged archive open.
        with open(file, "rb") as opened, np.load(opened, allow_pickle=False) as archive:
            names = archive.files
            for key in (name for name in (*needed, *optional) if name in names):
                arrays[key] = archive[key]
    except Exception as problem:  # damaged archives raise all kinds of errors in zipfile, zlib and NumPy
        if "allow_pickle" in str(problem):
            hint = "Save arrays of numbers or strings."
            raise DataError(f"{file}: '{key}' holds Python objects", hint=hint) from None
        raise DataError(f"{file}: '{key}' cannot be read: {problem}") from None
    for key in needed:
        if key not in arrays:
            held = ", ".join(names) or "none"
            raise DataError(f"{file} has no array '{key}' (it has: {held})", hint=_HOW_TO_WRITE)
    return arrays


def check_features(file: Path, rows: np.ndarray) -> None:
    """Raise a `DataError` for features that are no table of numbers, empty, or not finite in float32."""
    if rows.dtype.kind not in "fiu" or rows.dtype.itemsize > 8:
        raise DataError(f"{file}: features must be floats or integers of at most 64 bit", got=str(rows.dtype))
    if rows.ndim != 2:
        raise DataError(f"{file}: features must have the shape (rows, dimensions)", got=rows.shape)
    if rows.size == 0:
        raise DataError(f"{file}: features are empty", got=rows.shape)
    bad: list[int] = []
    for start in range(0, len(rows), _CHUNK):
        with np.errstate(over="ignore"):  # a float64 beyond the range of float32 becomes infinite
            finite = np.isfinite(rows[start : start + _CHUNK].astype(np.float32)).all(axis=1)
        bad += [start + int(position) for position in np.flatnonzero(~finite)]
    if bad:
        count = "1 row holds" if len(bad) == 1 else f"{len(bad):,} rows hold"
        raise DataError(f"{file}: {count} values that are not finite in float32, the first is row {bad[0]} (from 0)")


def _strings(file: Path, key: str, values: np.ndarray, rows: int) -> list[str]:
    if values.shape != (rows,):
        raise DataError(f"{file}: {key} must have one entry for each of {rows:,} rows", got=f"the shape {values.shape}")
    wanted = "integers or strings" if key == "labels" else "strings"
    if values.dtype.kind not in ("iuU" if key == "labels" else "U"):
        raise DataError(f"{file}: {key} must be {wanted}", got=str(values.dtype))
    strings = [str(value) for value in values.tolist()]
    empty = strings.count("")
    if empty:
        raise DataError(f"{file}: {key} is empty in {empty:,} rows, the first is row {strings.index('')} (from 0)")
    return strings


def _ids(paths: tuple[str, ...] | None, rows: list[int]) -> tuple[str, ...]:
    if paths is None:
        return tuple(f"row {position}" for position in rows)
    if len(set(paths)) == len(paths):
        return paths
    return tuple(f"{path} (row {position})" for path, position in zip(paths, rows, strict=True))
