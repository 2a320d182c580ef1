"""Transforms: equal to torchvision's own in evaluation, a function of the key alone in training."""

import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image

from unseen.core.errors import ConfigError
from unseen.core.randomness import torch_generator
from unseen.data.transforms import Crop, Plain, random_crop


def picture(width=60, height=40):
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8))


def test_evaluation_equals_the_usual_pipeline_of_torchvision():
    from torchvision.transforms import v2

    usual = v2.Compose(
        [
            v2.Resize(37),
            v2.CenterCrop(32),
            v2.ToImage(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )
    for size in ((60, 40), (40, 60), (20, 20), (33, 500)):
        assert torch.equal(Crop(size=32)(picture(*size), None), usual(picture(*size)))


@pytest.mark.parametrize("colours", [{}, {"mean": (0.1, 0.2, 0.3), "std": (0.7, 1.0, 3.0)}])
def test_every_byte_of_every_colour_becomes_the_bits_that_torchvision_computes(colours):
    from torchvision.transforms.v2 import functional

    pixels = np.stack([np.arange(256), np.arange(256)[::-1], np.roll(np.arange(256), 7)], 1).astype(np.uint8)
    image = Image.fromarray(pixels.reshape(16, 16, 3))
    plain = Plain(**colours)
    scaled = functional.to_dtype(functional.pil_to_tensor(image), torch.float32, scale=True)
    assert torch.equal(plain(image, None), functional.normalize(scaled, list(plain.mean), list(plain.std)))


def test_the_default_resize_keeps_the_ratio_of_256_to_224():
    image = picture(300, 280)
    assert torch.equal(Crop()(image, None), Crop(resize=256)(image, None))
    assert Crop()(image, None).shape == (3, 224, 224)


def test_training_crops_may_have_another_size_than_those_for_evaluation():
    image = picture(60, 40)
    smaller, usual = Crop(size=32, train_size=16), Crop(size=16)
    assert torch.equal(smaller(image, None), Crop(size=32)(image, None))
    for key in range(10):
        assert torch.equal(smaller(image, key), usual(image, key))


def test_a_part_that_is_drawn_equals_the_crop_done_by_hand():
    image = picture()
    crop = Crop(size=16, flip=False)
    top, left, height, width = random_crop(60, 40, scale_low=0.08, generator=torch_generator(5))
    cut = image.crop((left, top, left + width, top + height)).resize((16, 16), Image.Resampling.BILINEAR)
    pixels = torch.from_numpy(np.array(cut)).permute(2, 0, 1).double() / 255
    mean = torch.tensor(crop.mean, dtype=torch.float64)[:, None, None]
    std = torch.tensor(crop.std, dtype=torch.float64)[:, None, None]
    # float32 against float64: values up to 3, so a few times 1e-7
    assert torch.allclose(crop(image, 5).double(), (pixels - mean) / std, atol=2e-6)


def test_half_of_the_pictures_are_mirrored_and_none_without_flip():
    crop, still = Crop(size=8), Crop(size=8, flip=False)
    image = picture()
    mirrored = 0
    for key in range(300):
        one, other = crop(image, key), still(image, key)
        mirrored += torch.equal(one, other.flip(2))
        assert torch.equal(one, other) or torch.equal(one, other.flip(2))
    # Binomial(300, 0.5) has standard deviation 8.7.
    assert 106 < mirrored < 194


def test_random_parts_have_the_stated_shares_ratios_and_places():
    parts = [random_crop(200, 200, scale_low=0.2, generator=torch_generator(key)) for key in range(2000)]
    top, left, height, width = np.array(parts).T
    assert (top >= 0).all()
    assert (left >= 0).all()
    assert (top + height <= 200).all()
    assert (left + width <= 200).all()
    share = height * width / 200**2
    ratio = np.log(width / height)
    # One rounded pixel in a side of at least 77 is 1.3 %.
    assert 0.19 < share.min() < 0.23
    assert share.max() > 0.9
    assert np.abs(ratio).max() < math.log(4 / 3) + 0.03
    assert abs(ratio.mean()) < 0.02
    free = 200 - height
    assert abs((top[free > 50] / free[free > 50]).mean() - 0.5) < 0.03


@pytest.mark.parametrize(("width", "height"), [(1, 1), (1, 1000), (1000, 1), (3, 2), (4000, 100)])
def test_extreme_pictures_have_a_part_too(width, height):
    for key in range(20):
        top, left, tall, wide = random_crop(width, height, scale_low=0.9, generator=torch_generator(key))
        assert top >= 0
        assert left >= 0
        assert 0 < tall <= height - top
        assert 0 < wide <= width - left
    assert Crop(size=8)(picture(width, height), 0).shape == (3, 8, 8)
    assert Crop(size=8)(picture(width, height), None).shape == (3, 8, 8)


def test_plain_scales_and_never_augments():
    image = picture()
    tensor = Plain()(image, None)
    assert tensor.shape == (3, 40, 60)
    expected = torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 127.5 - 1
    assert torch.allclose(tensor, expected, atol=1e-6)  # float32 rounding of values up to 1
    assert torch.equal(Plain()(image, 7), tensor)
    assert Plain(size=9)(image, None).shape == (3, 9, 9)


def test_settings_out_of_range_are_refused():
    for wrong in (
        {"size": 0},
        {"size": 32, "resize": 31},
        {"scale_low": 0},
        {"scale_low": 1.1},
        {"std": (1, 0, 1)},
        {"mean": (1, 2)},
    ):
        with pytest.raises(ConfigError, match="Crop: "):
            Crop(**wrong)
    with pytest.raises(ConfigError, match="Plain: size"):
        Plain(size=0)


def test_a_missing_torchvision_is_said_when_a_transform_is_made(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision.transforms.v2.functional", None)
    with pytest.raises(ConfigError, match=r"need torchvision .*. Run pip install 'unseen\[vision\]'"):
        Crop()


def test_importing_the_module_does_not_import_torchvision():
    code = "import sys, unseen.data.transforms; sys.exit('torchvision' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
