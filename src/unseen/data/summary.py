"""What a catalogue holds, in numbers: images and classes of each side, sizes of classes and of images."""

import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from unseen.core.console import progress_bar
from unseen.data.catalogue import SIDES, Catalogue
from unseen.data.decoding import FORMATS
from unseen.data.item_readers import ImageFiles
from unseen.data.splits import Split


@dataclass(frozen=True)
class PartSummary:
    """One part of a catalogue, with the smallest, the middle and the largest number of images of its classes."""

    name: str
    images: int
    classes: int
    smallest: int
    median: float
    largest: int


@dataclass(frozen=True)
class ImageSizes:
    """Width and height of pictures as (smallest, middle, largest), the commonest sizes, and how many have none."""

    width: tuple[int, int, int]
    height: tuple[int, int, int]
    commonest: tuple[tuple[tuple[int, int], int], ...]
    unreadable: int


def summarize_parts(catalogue: Catalogue, split: Split | None) -> list[PartSummary]:
    """The whole catalogue and, with a split, its sides; queries and gallery too if they are not the test side."""
    positions = {"all": np.arange(len(catalogue))}
    if split is not None:
        positions |= {side: getattr(split, side) for side in SIDES}
        if len(split.queries) + len(split.gallery) < 2 * len(split.test):
            positions |= {"queries": split.queries, "gallery": split.gallery}
    return [_part(name, catalogue.labels[chosen]) for name, chosen in positions.items() if len(chosen)]


def image_sizes(catalogue: Catalogue, *, quiet: bool = False) -> ImageSizes | None:
    """The sizes of a catalogue's image files, from their headers; None if it holds no files or no readable one."""
    reader = catalogue.reader
    if not isinstance(reader, ImageFiles):
        return None
    found: Counter[tuple[int, int]] = Counter()
    with progress_bar("reading headers", len(reader), quiet=quiet) as bar:
        for index in range(len(reader)):
            size = _size_of(reader.path(index))
            found.update([size] if size else [])
            bar.advance()
    if not found:
        return None
    sizes = np.repeat(np.array(list(found)), list(found.values()), axis=0)
    return ImageSizes(
        width=_spread(sizes[:, 0]),
        height=_spread(sizes[:, 1]),
        commonest=tuple(found.most_common(3)),
        unreadable=len(reader) - len(sizes),
    )


def _part(name: str, labels: np.ndarray) -> PartSummary:
    counts = np.unique(labels, return_counts=True)[1]
    return PartSummary(name, len(labels), len(counts), int(counts.min()), float(np.median(counts)), int(counts.max()))


def _spread(values: np.ndarray) -> tuple[int, int, int]:
    return int(values.min()), round(float(np.median(values))), int(values.max())


def _size_of(path: Path) -> tuple[int, int] | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # remarks on metadata and on large pictures: nothing is decoded here
            with Image.open(path, formats=FORMATS) as image:
                return image.size
    except Exception:  # a reader of headers that is fed arbitrary bytes may raise anything; such files are counted
        return None
