"""Safe decoding: an image file becomes a complete RGB image, or an error with its path and the reason."""

import io
import os
import re
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import ExifTags, Image, ImageChops, UnidentifiedImageError

from unseen.core.errors import DataError

FORMATS = ("JPEG", "PNG", "WEBP", "BMP")
LARGEST_FILE = 64 * 10**6
LARGEST_IMAGE = 50 * 10**6
# A larger JPEG is decoded at half its size, which is still more than any network here needs.
HALVED_ABOVE = 16 * 10**6
REDUCED = "at the smallest of 1/8, 1/4, 1/2 and 1 of its size that has twice the width and height of the view"
AT_FULL_SIZE = f"at full size, above {HALVED_ABOVE // 10**6} megapixels at 1/2"
_TOO_MANY = f"more than {LARGEST_IMAGE // 10**6} megapixels"
_PILLOW = ("ignore", None, Warning, re.compile(r"PIL\."), 0)
# What makes an image upright, by its EXIF orientation.
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_MIRRORED_ACROSS, _MIRRORED_DOWN, _FIRST_ON_ITS_SIDE = (2, 3, 6, 7), (3, 4, 7, 8), 5


class Decoded(NamedTuple):
    """An upright RGB image whose sides are those of the file divided by `reduction`, rounded up.

    A side that was rounded up has part of a pixel too many: on the left or at the top if the file was mirrored there.
    """

    image: Image.Image
    reduction: int = 1
    left: float = 0.0
    top: float = 0.0


class EncodedImage:
    """An image file whose size is known, and whose pixels are decoded once it is known how many are needed.

    Raises:  `DataError` with path and reason for every file that cannot be decoded completely
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with _errors_naming(path):
            self._image = Image.open(io.BytesIO(_content(path)), formats=FORMATS)
            width, height = self._image.size
            if width * height > LARGEST_IMAGE:
                raise ValueError(f"{width:,} x {height:,} pixels are {_TOO_MANY}")
            if self._image.format == "PNG":
                self._image.load()  # its orientation may come after its pixels
            self._orientation = _orientation(self._image)
        self.size = (height, width) if self._orientation >= _FIRST_ON_ITS_SIDE else (width, height)
        """Width and height of the upright image before any reduction."""

    def decode(self, reduction: int = 1) -> Decoded:
        """Decode the pixels, which is possible once; see `decode` for how.

        Both sides of a JPEG are divided by the largest of 1, 2, 4 and 8 that is at most `reduction`. libjpeg does it in
        the frequency domain: it computes fewer pixels instead of averaging all of them.
        """
        with _errors_naming(self.path):
            image: Image.Image = self._image
            width, height = image.size
            if width * height > HALVED_ABOVE:
                reduction = max(reduction, 2)
            reduction = max(factor for factor in (1, 2, 4, 8) if factor <= reduction)
            # Returns None for other formats, and then does nothing.
            if reduction > 1 and image.draft(None, (width // reduction, height // reduction)) is None:
                reduction = 1
            image.load()
            if self._orientation in _UPRIGHT:
                upright = image.transpose(_UPRIGHT[self._orientation])
                image.close()  # frees its memory: never more than two copies at once
                image = upright
            left = image.width - self.size[0] / reduction if self._orientation in _MIRRORED_ACROSS else 0
            top = image.height - self.size[1] / reduction if self._orientation in _MIRRORED_DOWN else 0
            return Decoded(_as_rgb(image), reduction, left, top)


def decode(path: Path) -> Image.Image:
    """Decode a JPEG, PNG, WEBP or BMP file as an upright RGB image.

    ==============  ====================================================================
    transparency    composited on white (transparent pixels often have arbitrary colours)
    16-bit grey     scaled to 8 bit; palette, grey and CMYK become RGB
    EXIF            the orientation is applied; EXIF that cannot be read is ignored
    animation       the first frame
    large           a JPEG above 16 megapixels is decoded at half its size
    refused         files above 64 MB, images above 50 megapixels by their header
    ==============  ====================================================================

    Memory:  at most two copies of the image at 4 bytes per pixel, the file, and what the decoder needs
    Raises:  `DataError` with path and reason for every file that cannot be decoded completely
    """
    return EncodedImage(path).decode().image


@contextmanager
def _errors_naming(path: Path) -> Iterator[None]:
    """Raise every error of a decoder as a `DataError` with the path."""
    try:
        yield
        return
    except Image.DecompressionBombError:
        reason = f"its pixels are {_TOO_MANY}"
    except UnidentifiedImageError:
        reason = f"it is not a {', '.join(FORMATS[:-1])} or {FORMATS[-1]} image"
    except MemoryError:
        reason = "there is not enough memory"
    except Exception as problem:  # a decoder given arbitrary bytes may raise anything
        reason = (problem.strerror if isinstance(problem, OSError) else None) or str(problem) or type(problem).__name__
    raise DataError(f"cannot decode {path}: {reason}") from None


def _content(path: Path) -> bytes:
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("it is not a file")
    if status.st_size == 0:
        raise ValueError("the file is empty")
    if status.st_size > LARGEST_FILE:
        raise ValueError(f"the file has {status.st_size:,} bytes, more than {LARGEST_FILE:,}")
    # Pillow's warnings are about metadata, and about sizes that are refused here; problems with pixels raise. A filter
    # set and removed around each file (warnings.catch_warnings) would mix up those of other threads: this one stays.
    if _PILLOW not in warnings.filters:
        warnings.filterwarnings("ignore", module=_PILLOW[3].pattern)
    return path.read_bytes()


def _orientation(image: Image.Image) -> int:
    # Unreadable metadata says nothing about the pixels.
    with suppress(Exception):
        return int(image.getexif().get(ExifTags.Base.Orientation, 1))
    return 1


def _as_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):
        # Pillow's own conversion clips values above 255; this is value / 257, rounded, in place to save memory.
        values = np.asarray(image).astype(np.uint32)
        values += 128
        values //= 257
        return Image.fromarray(values.astype(np.uint8)).convert("RGB")
    if image.has_transparency_data:
        if image.mode != "RGBA":
            converted = image.convert("RGBA")
            image.close()
            image = converted
        image.paste((255, 255, 255, 255), mask=ImageChops.invert(image.getchannel("A")))
    if image.mode == "RGB":
        return image  # convert would copy it
    converted = image.convert("RGB")
    image.close()
    return converted
