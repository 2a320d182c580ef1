"""Summary statistics of a catalogue: images and classes per side, class sizes, image sizes."""

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
            size = _size_of(reader.path(index))
            counts.update([size] if size else [])
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


def _range(values: np.ndarray) -> tuple[int, int, int]:
    return int(values.min()), round(float(np.median(values))), int(values.max())


def _size_of(path: Path) -> tuple[int, int] | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about metadata and large images: nothing is decoded here
            with Image.open(path, formats=FORMATS) as image:
                return image.size
    except Exception:  # a header parser given arbitrary bytes may raise anything; such files are counted
        return None
