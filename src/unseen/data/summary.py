"""Summary statistics of a catalogue: images and classes per side, class sizes, image sizes, kind of files."""

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from unseen.core.config import Record
from unseen.core.console import progress_bar
from unseen.data.catalogue import SIDES, Catalogue
from unseen.data.decoding import FORMATS
from unseen.data.item_readers import ImageFiles
from unseen.data.splits import Split

_SAMPLED = 200
# The luminance table of the JPEG standard (ITU-T T.81, annex K.1); only the sum of its scaled steps is used.
# fmt: off
_STANDARD_TABLE = (
    16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55,
    14, 13, 16, 24, 40, 57, 69, 56, 14, 17, 22, 29, 51, 87, 80, 62,
    18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92,
    49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99,
)
# fmt: on


@dataclass(frozen=True)
class PartSummary:
    """Size of one part of a catalogue, with the smallest, median and largest class size."""

    name: str
    images: int
    classes: int
    smallest: int
    median: float
    largest: int


@dataclass(frozen=True)
class ImageSizes:
    """Width and height as (smallest, median, largest), the commonest sizes, and the number of unreadable files."""

    width: tuple[int, int, int]
    height: tuple[int, int, int]
    commonest: tuple[tuple[tuple[int, int], int], ...]
    unreadable: int


class FileHeader(NamedTuple):
    """What the header of an image file says; the quality is that of JPEG files."""

    format: str
    size: tuple[int, int]
    quality: int | None


def summarize_parts(catalogue: Catalogue, split: Split | None) -> list[PartSummary]:
    """Summarize the catalogue and the sides of the split; queries and gallery too if they are not the test side."""
    positions = {"all": np.arange(len(catalogue))}
    if split is not None:
        positions |= {side: getattr(split, side) for side in SIDES}
        if len(split.queries) + len(split.gallery) < 2 * len(split.test):
            positions |= {"queries": split.queries, "gallery": split.gallery}
    parts = []
    for name, chosen in positions.items():
        if len(chosen):
            sizes = np.unique(catalogue.labels[chosen], return_counts=True)[1]
            median = float(np.median(sizes))
            parts.append(PartSummary(name, len(chosen), len(sizes), int(sizes.min()), median, int(sizes.max())))
    return parts


def image_sizes(catalogue: Catalogue, *, quiet: bool = False) -> ImageSizes | None:
    """Read image sizes from the file headers; None if the catalogue has no readable image file."""
    reader = catalogue.reader
    if not isinstance(reader, ImageFiles):
        return None
    counts: Counter[tuple[int, int]] = Counter()
    with progress_bar("reading headers", len(reader), quiet=quiet) as bar:
        for index in range(len(reader)):
            header = _header_of(reader.path(index))
            counts.update([header.size] if header else [])
            bar.advance()
    if not counts:
        return None
    sizes = np.repeat(np.array(list(counts)), list(counts.values()), axis=0)
    return ImageSizes(
        width=_range(sizes[:, 0]),
        height=_range(sizes[:, 1]),
        commonest=tuple(counts.most_common(3)),
        unreadable=len(reader) - len(sizes),
    )


def describe_files(catalogue: Catalogue) -> Record | None:
    """Describe the files of a catalogue: what a score depends on besides their labels. None if there are none.

    Taken from the headers of at most 200 files, evenly spaced: the commonest format, the median of the shorter side in
    pixels, and the median quality of JPEG files as libjpeg would state it, None for other formats.
    """
    reader = catalogue.reader
    if not isinstance(reader, ImageFiles):
        return None
    headers = []
    for index in np.unique(np.linspace(0, len(reader) - 1, _SAMPLED).astype(int)).tolist():
        header = _header_of(reader.path(index))
        headers += [] if header is None else [header]
    if not headers:
        return None
    qualities = [header.quality for header in headers if header.quality is not None]
    return {
        "format": Counter(header.format for header in headers).most_common(1)[0][0],
        "shorter_side": round(float(np.median([min(header.size) for header in headers]))),
        "jpeg_quality": round(float(np.median(qualities))) if qualities else None,
        "sampled": len(headers),
    }


def jpeg_quality(table: Sequence[int]) -> int:
    """Estimate the quality setting, 1 to 100, from a luminance quantization table.

    It is the setting whose table, scaled from the standard's as libjpeg does, has the nearest sum.
    """
    return min(range(100, 0, -1), key=lambda quality: abs(_sum_at(quality) - sum(table)))


@cache
def _sum_at(quality: int) -> int:
    scale = 5000 // quality if quality < 50 else 200 - 2 * quality
    return sum(min(255, max(1, (step * scale + 50) // 100)) for step in _STANDARD_TABLE)


def _range(values: np.ndarray) -> tuple[int, int, int]:
    return int(values.min()), round(float(np.median(values))), int(values.max())


def _header_of(path: Path) -> FileHeader | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about metadata and large images: nothing is decoded here
            with Image.open(path, formats=FORMATS) as image:
                tables = getattr(image, "quantization", None)  # JPEG files have it
                quality = jpeg_quality(tables[0]) if tables else None
                return FileHeader(image.format or "", image.size, quality)
    except Exception:  # a header parser given arbitrary bytes may raise anything; such files are counted
        return None
