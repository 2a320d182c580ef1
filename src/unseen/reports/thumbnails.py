"""Thumbnails as PNG data URIs, encoded from pixels, so that no bytes of a foreign file reach the page."""

import base64
import io

import numpy as np
from PIL import Image

LEVELS = 16  # shades of a drawing; 4 bits per pixel keep a page with a thousand of them small


def _encode(image: Image.Image) -> str:
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def as_grey(thumbnails: np.ndarray) -> np.ndarray:
    """Grey images where all channels agree, else the images as they are; the last axes are h x w or h x w x 3."""
    if thumbnails.shape[-1] == 3 and thumbnails.ndim > 3 and (thumbnails == thumbnails[..., :1]).all():
        return thumbnails[..., 0]
    return thumbnails


def drawing_background(thumbnails: np.ndarray) -> int | None:
    """The background shade of drawings (letters, sketches): N x h x w images with borders at least 90 % of one shade.

    Empty:  None for photographs and without images
    """
    if thumbnails.ndim != 3 or len(thumbnails) == 0:
        return None
    border = np.concatenate(
        [thumbnails[:, 0], thumbnails[:, -1], thumbnails[:, :, 0], thumbnails[:, :, -1]], axis=1
    ).astype(np.int16)
    background = int(np.median(border))
    return background if (np.abs(border - background) <= 24).mean() > 0.9 else None


def tinted(thumbnail: np.ndarray, background: int, colour: tuple[int, int, int], size: int) -> str:
    """A drawing in one colour on a transparent background, at most `size` pixels wide and high."""
    distance = np.abs(thumbnail.astype(np.float32) - background)
    ink = np.clip(distance / max(background, 255 - background), 0, 1)
    alpha = Image.fromarray((255 * ink).astype(np.uint8))
    alpha.thumbnail((size, size), Image.Resampling.LANCZOS)
    image = Image.fromarray((np.asarray(alpha, dtype=np.uint16) * (LEVELS - 1) // 255).astype(np.uint8))
    image.putpalette(list(colour) * LEVELS)
    image.info["transparency"] = bytes(255 * level // (LEVELS - 1) for level in range(LEVELS))
    return _encode(image)


def photograph(thumbnail: np.ndarray, size: int, colours: int = 64) -> str:
    """A grey or colour image as it is, at most `size` pixels wide and high; colours are reduced to a palette."""
    image = Image.fromarray(np.ascontiguousarray(thumbnail))
    image.thumbnail((size, size), Image.Resampling.LANCZOS)
    if image.mode == "RGB":
        image = image.quantize(colours)
    return _encode(image)
