"""Decoding inside a guard: an image file becomes a whole RGB picture, or an error that names the file and why."""

import os
import stat
import warnings
from pathlib import Path

import numpy as np
from PIL import Image, ImageChops, UnidentifiedImageError

from unseen.core.errors import DataError

FORMATS = ("JPEG", "PNG", "WEBP", "BMP")
LARGEST_FILE = 64 * 10**6
LARGEST_IMAGE = 50 * 10**6
# A JPEG above this many pixels is decoded at half its size: it is more than any network here looks at.
HALVED_ABOVE = 16 * 10**6

_ORIENTATION = 0x0112
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def decode(path: Path) -> Image.Image:
    """The whole picture of a JPEG, PNG, WEBP or BMP file, upright and in RGB.

    ==============  ====================================================================
    transparency    laid on white (pixels hidden by alpha are often arbitrary colours)
    16 bit grey     scaled to 8 bit; palette, grey and CMYK become RGB
    EXIF            the orientation is applied; EXIF that cannot be read is ignored
    animation       the first frame
    large           a JPEG above 16 megapixels is decoded at half its size
    refused         files above 64 MB, pictures above 50 megapixels by their header
    ==============  ====================================================================

    Memory:  at most two copies of the picture at 4 bytes a pixel, besides what the format's decoder needs
    Raises:  `DataError` with path and reason for every file that is not decoded whole
    """
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise _Refused("it is not a file")
        if status.st_size == 0:
            raise _Refused("the file is empty")
        if status.st_size > LARGEST_FILE:
            raise _Refused(f"the file has {status.st_size:,} bytes, more than {LARGEST_FILE:,}")
        with warnings.catch_warnings(), open(path, "rb") as file:
            warnings.simplefilter("ignore")  # remarks on metadata; what concerns pixels raises
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(file, formats=FORMATS) as image:
                return _whole(image)
    except _Refused as problem:
        reason = str(problem)
    except (Image.DecompressionBombWarning, Image.DecompressionBombError):
        reason = _too_many_pixels()
    except UnidentifiedImageError:
        reason = f"it is not a {', '.join(FORMATS[:-1])} or {FORMATS[-1]} image"
    except MemoryError:
        reason = "there is not enough memory"
    except Exception as problem:  # a decoder that is fed arbitrary bytes may raise anything
        reason = (problem.strerror if isinstance(problem, OSError) else None) or str(problem) or type(problem).__name__
    raise DataError(f"cannot decode {path}: {reason}") from None


class _Refused(Exception):
    """The reason for which a file is not decoded."""


def _too_many_pixels(size: tuple[int, int] | None = None) -> str:
    stated = f"{size[0]:,} x {size[1]:,} pixels are" if size else "its pixels are"
    return f"{stated} more than {LARGEST_IMAGE // 10**6} megapixels"


def _whole(image: Image.Image) -> Image.Image:
    width, height = image.size
    if width * height > LARGEST_IMAGE:
        raise _Refused(_too_many_pixels(image.size))
    if width * height > HALVED_ABOVE:
        image.draft(None, (width // 2, height // 2))  # does nothing unless the file is a JPEG
    image.load()
    orientation = _orientation(image)
    picture = _as_rgb(image)
    image.close()  # gives its memory back: never more than two copies at once
    return picture.transpose(_UPRIGHT[orientation]) if orientation in _UPRIGHT else picture


def _orientation(image: Image.Image) -> int:
    try:
        return int(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # metadata that cannot be read says nothing about the pixels, which are whole
        return 1


def _as_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):
        return Image.fromarray(_eight_bit(np.asarray(image).astype(np.uint32))).convert("RGB")
    if image.has_transparency_data:
        if image.mode != "RGBA":
            converted = image.convert("RGBA")
            image.close()
            image = converted
        image.paste((255, 255, 255, 255), mask=ImageChops.invert(image.getchannel("A")))
    return image.convert("RGB")


def _eight_bit(deep: np.ndarray) -> np.ndarray:
    # Pillow's own conversion cuts values above 255 off; this is value / 257, rounded, in place to save memory.
    deep += 128
    deep //= 257
    return deep.astype(np.uint8)
