"""Item readers: how the content of a catalogue's items is read (image files, images in memory, cached features)."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image

from unseen.core.config import hash_of
from unseen.core.errors import DataError
from unseen.core.files import read_json, write_json
from unseen.core.folders import cache_folder
from unseen.data.catalogue import Kind
from unseen.data.decoding import EncodedImage, decode


def hash_of_array(array: np.ndarray) -> str:
    """Return the SHA-256 of an array's dtype, shape and content."""
    digest = hashlib.sha256(f"{array.dtype.str} {array.shape} ".encode())
    digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


class ImagesInMemory:
    """Images of one size as uint8: (N, H, W) for greyscale, (N, H, W, 3) for RGB."""

    kind: Kind = "images in memory"

    def __init__(self, pixels: np.ndarray) -> None:
        if pixels.dtype != np.uint8 or not (pixels.ndim == 3 or (pixels.ndim == 4 and pixels.shape[3] == 3)):
            raise DataError(
                "ImagesInMemory: pixels must be uint8 of shape (N, H, W) or (N, H, W, 3)",
                got=f"{pixels.dtype} {pixels.shape}",
            )
        self.pixels = np.ascontiguousarray(pixels)

    def __len__(self) -> int:
        return len(self.pixels)

    def content_hash(self) -> str:
        """Return a hash of all pixels."""
        return hash_of_array(self.pixels)

    def image(self, index: int) -> Image.Image:
        """Return the item as an RGB image."""
        return Image.fromarray(self.pixels[index]).convert("RGB")


class ImageFiles:
    """Image files below a root; sizes and modification times are recorded once, so that a later change is noticed.

    `unseen data check` records checksums, which identify the data by content instead of dates.

    Raises:  `DataError` when a file is missing or cannot be accessed
    """

    kind: Kind = "image files"

    def __init__(self, root: Path, paths: tuple[str, ...]) -> None:
        self.root = root
        self.paths = paths
        self.sizes = np.empty(len(paths), np.int64)
        self.times = np.empty(len(paths), np.int64)
        for index in range(len(paths)):
            self.sizes[index], self.times[index] = self._size_and_time(index)

    def __len__(self) -> int:
        return len(self.paths)

    def path(self, index: int) -> Path:
        """Return the path of the item's file."""
        return self.root / self.paths[index]

    def checksums(self) -> list[str | None]:
        """Return the recorded SHA-256 of each file; None if there is none, or if size or time changed since."""
        entries = self._recorded()
        checksums: list[str | None] = []
        for path, size, time in zip(self.paths, self.sizes.tolist(), self.times.tolist(), strict=True):
            known, _, checksum = entries.get(_utf8(path), "").rpartition(" ")
            checksums.append(checksum if known == f"{size} {time}" else None)
        return checksums

    def record_checksums(self, checksums: Mapping[int, str]) -> Path:
        """Record the SHA-256 of the files at these indices, beside those of other files below the same root."""
        entries = self._recorded()
        for index, checksum in checksums.items():
            entries[_utf8(self.paths[index])] = f"{self.sizes[index]} {self.times[index]} {checksum}"
        write_json(self._record, entries)
        return self._record

    def content_hash(self) -> str:
        """Return a hash of the recorded checksums, the same for a copy; without them, of sizes and times.

        Neither notices a change that keeps both size and modification time.
        """
        checksums = self.checksums()
        if None not in checksums:
            return hashlib.sha256(" ".join(map(str, checksums)).encode()).hexdigest()
        return hash_of_array(np.stack([self.sizes, self.times]))

    def verify(self, index: int) -> None:
        """Raise `DataError` if the file's size or modification time changed since the reader was made."""
        if self._size_and_time(index) != (self.sizes[index], self.times[index]):
            raise DataError(f"{self.path(index)} changed after the data was read", hint="Start a new run.")

    def encoded(self, index: int) -> EncodedImage:
        """Return the item before its pixels are decoded; `DataError` if it is no image."""
        return EncodedImage(self.path(index))

    def image(self, index: int) -> Image.Image:
        """Return the item as an RGB image; `DataError` if it cannot be decoded completely."""
        return decode(self.path(index))

    @property
    def _record(self) -> Path:
        return cache_folder() / "sums" / f"{hash_of(_utf8(str(self.root.resolve())))}.json"

    def _recorded(self) -> dict[str, str]:
        try:
            return dict(read_json(self._record)) if self._record.exists() else {}
        except DataError as problem:
            hint = "Remove that file and run unseen data check again to record the checksums."
            raise DataError(problem.message, hint=hint) from None

    def _size_and_time(self, index: int) -> tuple[int, int]:
        try:
            status = os.stat(f"{self.root}/{self.paths[index]}")  # much faster than a Path when there are many files
        except OSError as problem:
            raise DataError(f"{self.path(index)} cannot be read: {problem.strerror}") from None
        return status.st_size, status.st_mtime_ns


def _utf8(path: str) -> str:
    # A file name may hold bytes that are not valid UTF-8, which JSON cannot represent.
    return os.fsencode(path).decode("utf-8", "backslashreplace")


class FeatureArray:
    """Cached features, one row per item (N, D), in their own dtype; `paths` are the images behind them, if known."""

    kind: Kind = "features"

    def __init__(self, features: np.ndarray, *, root: Path | None = None, paths: tuple[str, ...] | None = None) -> None:
        if features.ndim != 2 or features.dtype.kind not in "fiu":
            raise DataError(
                "FeatureArray: features must be numbers of shape (N, D)", got=f"{features.dtype} {features.shape}"
            )
        assert paths is None or len(paths) == len(features), "paths and features differ in length"
        # torch needs the byte order of this machine.
        self.features = np.ascontiguousarray(features, features.dtype.newbyteorder("="))
        self.root = root
        self.paths = paths

    def __len__(self) -> int:
        return len(self.features)

    def content_hash(self) -> str:
        """Return a hash of all features."""
        return hash_of_array(self.features)

    def image(self, index: int) -> Image.Image | None:
        """Return the image behind the features; None if it is missing or broken, since it is only for display."""
        if self.paths is None:
            return None
        try:
            return decode((self.root or Path()) / self.paths[index])
        except DataError:
            return None
