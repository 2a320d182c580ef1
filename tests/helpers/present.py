"""Values that a test knows to be there, with the type that says so."""

from typing import TypeVar

import numpy as np
from PIL.Image import Image

from unseen.data import Catalogue, ImageFiles, ImagesInMemory

Value = TypeVar("Value")


def present(value: Value | None) -> Value:
    """The value, which is not None."""
    assert value is not None
    return value


def image_of(catalogue: Catalogue, index: int) -> Image:
    """The image of an item."""
    return present(catalogue.reader.image(index))


def files_of(catalogue: Catalogue) -> ImageFiles:
    """The files of a catalogue of image files."""
    assert isinstance(catalogue.reader, ImageFiles)
    return catalogue.reader


def pixels_of(catalogue: Catalogue) -> np.ndarray:
    """The pixels of a catalogue of images in memory."""
    assert isinstance(catalogue.reader, ImagesInMemory)
    return catalogue.reader.pixels
