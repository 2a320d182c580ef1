"""Integrity checks of image files: are they whole, did they change, which are duplicates."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
from torch.utils.data import Dataset

from unseen.core.console import progress_bar
from unseen.core.errors import DataError
from unseen.core.files import sha256_of
from unseen.data.batches import make_loader
from unseen.data.catalogue import SIDES, Catalogue
from unseen.data.decoding import decode
from unseen.data.item_readers import ImageFiles
from unseen.data.splits import Split

_CHUNK = 16
_SHOWN = 3

Result = TypeVar("Result")


@dataclass(frozen=True)
class IntegrityReport:
    """What a check of a catalogue's files found; groups and positions are of items of the catalogue."""

    files: int
    broken: tuple[str, ...]  # one message per broken file, with path and reason
    altered: tuple[int, ...]  # files whose content changed although size and modification time did not
    duplicates: tuple[tuple[int, ...], ...]  # groups of intact images with the same pixels
    crossing: tuple[tuple[int, ...], ...]  # groups of duplicates on both sides of the split
    confused: tuple[tuple[int, ...], ...]  # groups of duplicates in more than one class
    record: Path  # the file with the recorded checksums of all intact images


@dataclass(frozen=True)
class _FileHashes:
    """SHA-256 of a file's bytes and of its decoded pixels, or why it is broken."""

    content: str
    pixels: str
    problem: str | None


def check_integrity(
    catalogue: Catalogue, split: Split | None = None, *, workers: int = 0, quiet: bool = False
) -> IntegrityReport:
    """Decode every image file once, record the checksums of intact ones, and find duplicates.

    Images are duplicates when their decoded pixels are equal. Without a split none can cross it.

    Raises:  `DataError` for a catalogue without image files
    """
    reader = catalogue.reader
    if not isinstance(reader, ImageFiles):
        raise DataError(f"{catalogue.name}: there are no image files to check", got=reader.kind)
    earlier = reader.checksums()
    hashes = _for_each_file(partial(_hash_file, reader), range(len(reader)), workers=workers, quiet=quiet)
    intact = [index for index, file in enumerate(hashes) if file.problem is None]
    record = reader.record_checksums({index: hashes[index].content for index in intact})
    duplicates = groups_of_equal({index: hashes[index].pixels for index in intact})
    sides = np.full(len(catalogue), "", "<U10")
    for side in SIDES if split is not None else ():
        sides[getattr(split, side)] = side
    return IntegrityReport(
        files=len(hashes),
        broken=tuple(file.problem for file in hashes if file.problem is not None),
        altered=tuple(index for index, known in enumerate(earlier) if known not in (None, hashes[index].content)),
        duplicates=duplicates,
        crossing=tuple(group for group in duplicates if len(set(sides[list(group)]) - {""}) > 1),
        confused=tuple(group for group in duplicates if len(set(catalogue.labels[list(group)])) > 1),
        record=record,
    )


def check_images(
    catalogue: Catalogue, indices: Sequence[int] | np.ndarray | None = None, *, workers: int = 0, quiet: bool = False
) -> None:
    """Decode all image files (or those of `indices`) once, so that a broken one is found before a run starts.

    Files that `unseen data check` found intact and that did not change since are skipped. A catalogue without image
    files passes.

    Raises:  `DataError` with path and reason of the first broken files and the number of the others
    """
    reader = catalogue.reader
    if not isinstance(reader, ImageFiles):
        return
    checksums = reader.checksums()
    unchecked = [int(index) for index in (range(len(reader)) if indices is None else indices)]
    unchecked = [index for index in unchecked if checksums[index] is None]
    problems = _for_each_file(partial(_decoding_problem, reader), unchecked, workers=workers, quiet=quiet)
    broken = [problem for problem in problems if problem is not None]
    if broken:
        more = f"; and {len(broken) - _SHOWN:,} more" if len(broken) > _SHOWN else ""
        files = "1 image file is" if len(broken) == 1 else f"{len(broken):,} image files are"
        raise DataError(
            f"{catalogue.name}: {files} broken: {'; '.join(broken[:_SHOWN])}{more}",
            hint="Repair or remove these files.",
        )


def groups_of_equal(values: Mapping[int, str]) -> tuple[tuple[int, ...], ...]:
    """Return the groups of two or more keys with the same value.

    >>> groups_of_equal({0: "a", 1: "b", 4: "a"})
    ((0, 4),)
    """
    groups = defaultdict(list)
    for index, value in values.items():
        groups[value].append(index)
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)


def _for_each_file(
    inspect: Callable[[int], Result], indices: Sequence[int], *, workers: int, quiet: bool
) -> list[Result]:
    chunks = [indices[start : start + _CHUNK] for start in range(0, len(indices), _CHUNK)]
    results: list[Result] = []
    with progress_bar("checking images", len(indices), quiet=quiet) as bar:
        for chunk in make_loader(_InspectedFiles(inspect), chunks, workers=workers):
            results += chunk
            bar.advance(len(chunk))
    return results


class _InspectedFiles(Dataset[Result]):
    """The results of a function of the position, a chunk at a time."""

    is_in_memory = False

    def __init__(self, inspect: Callable[[int], Result]) -> None:
        self.inspect = inspect

    def __getitems__(self, indices: Sequence[int]) -> list[Result]:
        return [self.inspect(index) for index in indices]


def _decoding_problem(reader: ImageFiles, index: int) -> str | None:
    try:
        reader.encoded(index).decode(8)  # reads the file to its end, and computes few pixels
    except DataError as problem:
        return problem.message
    return None


def _hash_file(reader: ImageFiles, index: int) -> _FileHashes:
    path = reader.path(index)
    try:
        reader.verify(index)
        image = decode(path)
        content = sha256_of(path)
    except DataError as problem:
        return _FileHashes("", "", problem.message)
    size = f"{image.width} {image.height} "
    return _FileHashes(content, hashlib.sha256(size.encode() + image.tobytes()).hexdigest(), None)
