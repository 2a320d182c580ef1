"""Safe decoding: an image file becomes a complete RGB image, or an error with its path and the reason."""

import os
import re
import stat
import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np
from PIL import Image, ImageChops, ImageOps, UnidentifiedImageError

from unseen.core.errors import DataError

FORMATS = ("JPEG", "PNG", "WEBP", "BMP")
LARGEST_FILE = 64 * 10**6
LARGEST_IMAGE = 50 * 10**6
# A larger JPEG is decoded at half its size, which is still more than any network here needs.
HALVED_ABOVE = 16 * 10**6
_PILLOW = ("ignore", None, Warning, re.compile(r"PIL\."), 0)
_TOO_MANY = f"more than {LARGEST_IMAGE // 10**6} megapixels"


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

    Memory:  at most two copies of the image at 4 bytes per pixel, plus what the decoder needs
    Raises:  `DataError` with path and reason for every file that cannot be decoded completely
    """
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is not a file")
        if status.st_size == 0:
            raise ValueError("the file is empty")
        if status.st_size > LARGEST_FILE:
            raise ValueError(f"the file has {status.st_size:,} bytes, more than {LARGEST_FILE:,}")
        _ignore_warnings_of_pillow()
        with open(path, "rb") as file, Image.open(file, formats=FORMATS) as image:
            return _load(image)
    except Image.DecompressionBombError:
        reason = f"its pixels are {_TOO_MANY}"
    except UnidentifiedImageError:
        reason = f"it is not a {', '.join(FORMATS[:-1])} or {FORMATS[-1]} image"
    except MemoryError:
        reason = "there is not enough memory"
    except Exception as problem:  # a decoder given arbitrary bytes may raise anything
        reason = (problem.strerror if isinstance(problem, OSError) else None) or str(problem) or type(problem).__name__
    raise DataError(f"cannot decode {path}: {reason}") from None


def _ignore_warnings_of_pillow() -> None:
    # They are about metadata, and about sizes that `_load` refuses; problems with pixels raise. A filter that is set
    # and removed around each file (warnings.catch_warnings) would mix up those of other threads: this one stays.
    if _PILLOW not in warnings.filters:
        warnings.filterwarnings("ignore", module=_PILLOW[3].pattern)


def _load(image: Image.Image) -> Image.Image:
    width, height = image.size
    if width * height > LARGEST_IMAGE:
        raise ValueError(f"{width:,} x {height:,} pixels are {_TOO_MANY}")
    if width * height > HALVED_ABOVE:
        image.draft(None, (width // 2, height // 2))  # does nothing unless the file is a JPEG
    image.load()
    # Unreadable metadata says nothing about the pixels, which are complete.
    with suppress(Exception):
        ImageOps.exif_transpose(image, in_place=True)
    decoded = _as_rgb(image)
    image.close()  # frees its memory: never more than two copies at once
    return decoded


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
    return image.convert("RGB")
