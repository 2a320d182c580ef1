"""From a record to a catalogue, from a catalogue to a split, and the check of all images before a run."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch.utils.data import Dataset

from unseen.core import registry
from unseen.core.config import build
from unseen.core.console import progress_bar
from unseen.core.errors import DataError
from unseen.data.batches import make_loader
from unseen.data.catalogue import Catalogue
from unseen.data.checksums import recorded_checksums
from unseen.data.item_readers import ImageFiles
from unseen.data.splits import Split

_log = logging.getLogger("unseen")

_SHOWN = 3
_CHUNK = 16


def load_catalogue(record: str | Mapping[str, Any]) -> Catalogue:
    """The catalogue that a record describes: `"folder=my/birds"` or `{"name": "folder", "path": "my/birds"}`.

    What there is to note about it (counts that are not the published ones, classes left out) is logged as a warning.
    """
    catalogue: Catalogue = build(registry.data, record)
    for note in catalogue.notes:
        _log.warning("note on %s: %s", catalogue.name, note)
    return catalogue


def split_catalogue(catalogue: Catalogue, record: str | Mapping[str, Any]) -> Split:
    """The catalogue's split that a record describes: `"fraction:train=0.5"` or `{"name": "given"}`."""
    made: Split = build(registry.split, record)(catalogue)
    return made


def check_images(
    catalogue: Catalogue,
    indices: Sequence[int] | np.ndarray | None = None,
    *,
    workers: int = 0,
    quiet: bool = False,
) -> None:
    """Decode all image files (or those of `indices`) once, so that a broken one is known before a run starts.

    Files that `unseen data check` found whole, and that kept size and time, are not decoded again. Other kinds of
    catalogues hold no files and pass at once.

    Raises:  `DataError` with path and reason of the first broken files and the number of the others
    """
    reader = catalogue.reader
    if not isinstance(reader, ImageFiles):
        return
    sums = recorded_checksums(reader.root, reader.paths, reader.sizes, reader.times)
    chosen = [int(index) for index in (range(len(catalogue)) if indices is None else indices) if sums[index] is None]
    chunks = [chosen[start : start + _CHUNK] for start in range(0, len(chosen), _CHUNK)]
    broken: list[str] = []
    with progress_bar("checking images", len(chosen), quiet=quiet) as bar:
        for chunk, found in zip(chunks, make_loader(_Decoded(reader), chunks, workers=workers), strict=True):
            broken += found
            bar.advance(len(chunk))
    if broken:
        more = f"; and {len(broken) - _SHOWN:,} more" if len(broken) > _SHOWN else ""
        files = "1 image file is" if len(broken) == 1 else f"{len(broken):,} image files are"
        raise DataError(
            f"{catalogue.name}: {files} broken: {'; '.join(broken[:_SHOWN])}{more}",
            hint="Use data without them: mend or remove these files.",
        )


class _Decoded(Dataset[Any]):
    """What is wrong with the files of a chunk, as sentences."""

    def __init__(self, reader: ImageFiles) -> None:
        self.reader = reader

    def __getitems__(self, indices: Sequence[int]) -> list[str]:
        broken = []
        for index in indices:
            try:
                self.reader.image(index)
            except DataError as problem:
                broken.append(problem.message)
        return broken
