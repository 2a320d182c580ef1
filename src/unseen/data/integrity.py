"""A check of all image files: each is decoded once, summed, and compared with the others."""

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data import Dataset

from unseen.core.console import progress_bar
from unseen.core.errors import DataError
from unseen.data.batches import make_loader
from unseen.data.catalogue import Catalogue
from unseen.data.checksums import record_checksums, recorded_checksums
from unseen.data.decoding import decode
from unseen.data.item_readers import ImageFiles
from unseen.data.splits import Split

_CHUNK = 16


@dataclass(frozen=True)
class Finding:
    """What one file is: the SHA-256 of its bytes and of its pixels, or the reason for which it is broken."""

    content: str
    pixels: str
    problem: str | None


@dataclass(frozen=True)
class IntegrityReport:
    """What a check of a catalogue's files found; positions are those of the catalogue.

    ===========  =================================================================================
    broken       sentences that name a file and a reason
    altered      files whose content is not what was recorded, though size and time are: damage
    duplicates   groups of whole images with the same pixels
    crossing     those of these groups that stand on two sides of the split
    confused     those of these groups that stand in two classes
    record       the file that now holds the sums of all whole images
    ===========  =================================================================================
    """

    files: int
    broken: tuple[str, ...]
    altered: tuple[int, ...]
    duplicates: tuple[tuple[int, ...], ...]
    crossing: tuple[tuple[int, ...], ...]
    confused: tuple[tuple[int, ...], ...]
    record: Path


def check_integrity(
    catalogue: Catalogue, split: Split | None = None, *, workers: int = 0, quiet: bool = False
) -> IntegrityReport:
    """Decode every image file once, record the sums of those that are whole, and find duplicates.

    Two images are duplicates when their bytes or their decoded pixels are the same. Without a split none can cross it.

    Raises:  `DataError` for a catalogue that holds no image files
    """
    reader = catalogue.reader
    if not isinstance(reader, ImageFiles):
        raise DataError(f"{catalogue.name}: there are no image files to check", got=reader.kind)
    before = recorded_checksums(reader.root, reader.paths, reader.sizes, reader.times)
    findings = _findings(reader, workers, quiet)
    whole = [index for index, found in enumerate(findings) if found.problem is None]
    record = record_checksums(
        reader.root,
        [reader.paths[index] for index in whole],
        reader.sizes[whole],
        reader.times[whole],
        [findings[index].content for index in whole],
    )
    groups = groups_of_equal({index: findings[index].pixels for index in whole})
    sides = _sides(catalogue, split)
    return IntegrityReport(
        files=len(findings),
        broken=tuple(found.problem for found in findings if found.problem is not None),
        altered=tuple(
            index for index, sum_ in enumerate(before) if sum_ is not None and sum_ != findings[index].content
        ),
        duplicates=groups,
        crossing=tuple(group for group in groups if len({sides[index] for index in group} - {""}) > 1),
        confused=tuple(group for group in groups if len(set(catalogue.labels[list(group)])) > 1),
        record=record,
    )


def groups_of_equal(values: dict[int, str]) -> tuple[tuple[int, ...], ...]:
    """Positions with the same value, in groups of two and more.

    >>> groups_of_equal({0: "a", 1: "b", 4: "a"})
    ((0, 4),)
    """
    positions = defaultdict(list)
    for index, value in values.items():
        positions[value].append(index)
    return tuple(tuple(group) for group in positions.values() if len(group) > 1)


def _sides(catalogue: Catalogue, split: Split | None) -> np.ndarray:
    sides = np.full(len(catalogue), "", "<U10")
    if split is not None:
        for side in ("train", "validation", "test"):
            sides[getattr(split, side)] = side
    return sides


def _findings(reader: ImageFiles, workers: int, quiet: bool) -> list[Finding]:
    starts = range(0, len(reader), _CHUNK)
    chunks = [range(start, min(start + _CHUNK, len(reader))) for start in starts]
    findings: list[Finding] = []
    with progress_bar("checking images", len(reader), quiet=quiet) as bar:
        for found in make_loader(_Examined(reader), chunks, workers=workers):
            findings += found
            bar.advance(len(found))
    return findings


class _Examined(Dataset[Any]):
    """What the files of a chunk are."""

    def __init__(self, reader: ImageFiles) -> None:
        self.reader = reader

    def __getitems__(self, indices: Sequence[int]) -> list[Finding]:
        return [_finding(self.reader, index) for index in indices]


def _finding(reader: ImageFiles, index: int) -> Finding:
    path = reader.path(index)
    try:
        reader.verify(index)
        image = decode(path)
        with open(path, "rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
    except DataError as problem:
        return Finding("", "", problem.message)
    size = f"{image.width} {image.height} "
    return Finding(content, hashlib.sha256(size.encode() + image.tobytes()).hexdigest(), None)
