"""Sources: where the content of a catalogue's items comes from (files, pixels in memory, cached features)."""

import hashlib
import os
from pathlib import Path

import numpy as np
from PIL import Image

from unseen.core.errors import DataError
from unseen.data.catalogue import Kind
from unseen.data.checksums import recorded_checksums
from unseen.data.decoding import decode


def hash_of_array(array: np.ndarray) -> str:
    """The SHA-256 of an array's type, shape and content."""
    digest = hashlib.sha256(f"{array.dtype.str} {array.shape} ".encode())
    digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


class ImagesInMemory:
    """Images of one size, held as whole numbers from 0 to 255: (N, H, W) for grey, (N, H, W, 3) for colour."""

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
        """A hash of every pixel."""
        return hash_of_array(self.pixels)

    def image(self, index: int) -> Image.Image:
        """The item as an RGB picture."""
        return Image.fromarray(self.pixels[index]).convert("RGB")


class ImageFiles:
    """Image files below a root; their sizes and times are taken once, so that a later change is noticed.

    Raises:  `DataError` when a file is missing or cannot be looked at
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
        """Where the item lies."""
        return self.root / self.paths[index]

    def content_hash(self) -> str:
        """A hash of the recorded sums, so that a copy is the same data; of sizes and modification times before a check.

        Both are blind to a change that keeps size and time. The sums are those of `unseen data check`; they count while
        size and time of every file are what they were.
        """
        sums = recorded_checksums(self.root, self.paths, self.sizes, self.times)
        if None not in sums:
            return hashlib.sha256(" ".join(map(str, sums)).encode()).hexdigest()
        return hash_of_array(np.stack([self.sizes, self.times]))

    def verify(self, index: int) -> None:
        """Refuse a file whose size or modification time is not what it was when the reader was made."""
        if self._size_and_time(index) != (self.sizes[index], self.times[index]):
            raise DataError(f"{self.path(index)} changed after the data was read", hint="Use a new run.")

    def image(self, index: int) -> Image.Image:
        """The item as an RGB picture; `DataError` if it is not whole."""
        return decode(self.path(index))

    def _size_and_time(self, index: int) -> tuple[int, int]:
        try:
            status = os.stat(f"{self.root}/{self.paths[index]}")  # much quicker than a Path when files are many
        except OSError as problem:
            raise DataError(f"{self.path(index)} cannot be read: {problem.strerror}") from None
        return status.st_size, status.st_mtime_ns


class FeatureArray:
    """Cached features, one row an item (N, D), in the type they came in; `paths` lead to their pictures, if any."""

    kind: Kind = "features"

    def __init__(self, features: np.ndarray, *, root: Path | None = None, paths: tuple[str, ...] | None = None) -> None:
        if features.ndim != 2 or features.dtype.kind not in "fiu":
            raise DataError(
                "FeatureArray: features must be numbers of shape (N, D)", got=f"{features.dtype} {features.shape}"
            )
        assert paths is None or len(paths) == len(features), "paths and features tell of different items"
        # In the byte order of this machine, the only one torch knows.
        self.features = np.ascontiguousarray(features, features.dtype.newbyteorder("="))
        self.root = root
        self.paths = paths

    def __len__(self) -> int:
        return len(self.features)

    def content_hash(self) -> str:
        """A hash of every feature."""
        return hash_of_array(self.features)

    def image(self, index: int) -> Image.Image | None:
        """The picture the features were made from; None if it is not there or broken, as nothing is learnt from it."""
        if self.paths is None:
            return None
        try:
            return decode((self.root or Path()) / self.paths[index])
        except DataError:
            return None
