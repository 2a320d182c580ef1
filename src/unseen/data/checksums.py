"""Checksums of image files, recorded by `unseen data check`: data is identified by content instead of dates."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from unseen.core.config import hash_of
from unseen.core.errors import DataError
from unseen.core.files import read_json, write_json
from unseen.core.folders import cache_folder


def record_checksums(
    root: Path, paths: Sequence[str], sizes: np.ndarray, times: np.ndarray, checksums: Sequence[str]
) -> Path:
    """Record the SHA-256 of files below a root with their sizes and times; return the file of the record.

    Earlier entries of other files below the same root are kept.
    """
    record = _record_of(root)
    entries = _read(record)
    for path, size, time, checksum in zip(paths, sizes, times, checksums, strict=True):
        entries[_key(path)] = f"{size} {time} {checksum}"
    write_json(record, entries)
    return record


def recorded_checksums(root: Path, paths: Sequence[str], sizes: np.ndarray, times: np.ndarray) -> list[str | None]:
    """Return the recorded SHA-256 of each file; None if there is none, or if size or time changed since."""
    entries = _read(_record_of(root))
    checksums: list[str | None] = []
    for path, size, time in zip(paths, sizes.tolist(), times.tolist(), strict=True):
        known, _, checksum = entries.get(_key(path), "").rpartition(" ")
        checksums.append(checksum if known == f"{size} {time}" else None)
    return checksums


def _record_of(root: Path) -> Path:
    return cache_folder() / "sums" / f"{hash_of(_key(str(root.resolve())))}.json"


def _key(path: str) -> str:
    # A file name may hold bytes that are not valid UTF-8, which JSON cannot represent.
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _read(record: Path) -> dict[str, str]:
    if not record.exists():
        return {}
    try:
        return dict(read_json(record))
    except DataError as problem:
        raise DataError(
            problem.message, hint="Remove that file and run unseen data check again to record the checksums."
        ) from None
