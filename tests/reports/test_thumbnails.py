"""Thumbnails: what is encoded is what was given."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

from tests.helpers.synthetic_content import make_sample
from unseen.core.randomness import derive, numpy_generator
from unseen.reports.thumbnails import as_grey, drawing_background, photograph, tinted


def decoded(uri):
    head, _, body = uri.partition(",")
    assert head == "data:image/png;base64"
    return Image.open(io.BytesIO(base64.b64decode(body, validate=True)))


def noise(*shape):
    return numpy_generator(derive(0, "noise")).integers(0, 256, size=shape, dtype=np.uint8)


@pytest.mark.parametrize("is_negative", [False, True])
def test_letters_are_ink_of_either_polarity(is_negative):
    letters = make_sample("scripts", noise=1.0, fonts=1).map_thumbnails
    letters = 255 - letters if is_negative else letters
    background = drawing_background(letters)
    assert background is not None
    assert background == (0 if is_negative else 255)
    image = decoded(tinted(letters[0], background, (10, 20, 30), 64)).convert("RGBA")
    pixels = np.asarray(image)
    assert set(map(tuple, pixels[..., :3].reshape(-1, 3))) == {(10, 20, 30)}
    covered = np.abs(letters[0].astype(int) - background)
    # Sixteen levels of alpha: half a step, and rounding down.
    assert np.abs(pixels[..., 3].astype(int) - covered).max() <= 18


def test_photographs_are_not_ink():
    assert drawing_background(noise(5, 16, 16)) is None
    assert drawing_background(noise(5, 16, 16, 3)) is None
    assert drawing_background(np.zeros((0, 16, 16), dtype=np.uint8)) is None


def test_grey_photographs_come_back_exactly():
    image = noise(16, 20)
    assert np.array_equal(np.asarray(decoded(photograph(image, 64))), image)


def test_colour_photographs_come_back_nearly_and_no_larger_than_asked():
    flat = np.zeros((40, 80, 3), dtype=np.uint8)
    flat[:, 40:] = (200, 30, 60)
    image = decoded(photograph(flat, 64))
    assert image.size == (64, 32)
    assert np.abs(np.asarray(image.convert("RGB"))[:, -1].astype(int) - (200, 30, 60)).max() <= 8


def test_equal_channels_are_grey():
    grey = noise(4, 8, 8)
    assert np.array_equal(as_grey(np.repeat(grey[..., None], 3, axis=-1)), grey)
    assert as_grey(noise(4, 8, 8, 3)).shape == (4, 8, 8, 3)
    assert as_grey(noise(4, 8, 3)).shape == (4, 8, 3)
