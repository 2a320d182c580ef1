"""Recorded sums: what `unseen data check` found out about files, so that content rather than dates names the data."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from unseen.core.config import hash_of
from unseen.core.errors import DataError
from unseen.core.files import read_json, write_json
from unseen.core.paths import cache_folder


def record_checksums(
    root: Path, paths: Sequence[str], sizes: np.ndarray, times: np.ndarray, sums: Sequence[str]
) -> Path:
    """Record the SHA-256 of files below a root, with the size and time each had; gives the file of the record.

    What was recorded earlier of other files below the same root stays.
    """
    place = _record_of(root)
    known = _read(place)
    for path, size, time, found in zip(paths, sizes, times, sums, strict=True):
        known[_key(path)] = f"{size} {time} {found}"
    write_json(place, known)
    return place


def recorded_checksums(root: Path, paths: Sequence[str], sizes: np.ndarray, times: np.ndarray) -> list[str | None]:
    """The recorded SHA-256 of each file; None where there is none, or where size or time are not what they were."""
    known = _read(_record_of(root))
    if not known:
        return [None] * len(paths)
    found: list[str | None] = []
    for path, size, time in zip(paths, sizes.tolist(), times.tolist(), strict=True):
        was_size, was_time, was = (known.get(_key(path)) or "- - -").split(" ")
        found.append(was if (was_size, was_time) == (str(size), str(time)) else None)
    return found


def _record_of(root: Path) -> Path:
    return cache_folder() / "sums" / f"{hash_of(_key(str(root.resolve())))}.json"


def _key(path: str) -> str:
    # A file's name may hold bytes that are no text, which JSON cannot hold.
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _read(place: Path) -> dict[str, str]:
    if not place.exists():
        return {}
    try:
        content = read_json(place)
    except DataError as problem:
        raise DataError(problem.message, hint="Use unseen data check again after removing that file.") from None
    return dict(content)
