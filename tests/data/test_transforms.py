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
from unseen.data.decoding import EncodedImage, decode
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
    sizes = np.random.default_rng(0).integers(1, 120, (60, 2)).tolist()
    for size in [(60, 40), (40, 60), (20, 20), (33, 500), (37, 37), (37, 60), *sizes]:
        assert torch.equal(Crop(size=32)(picture(*size), None), usual(picture(*size))), size


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


def test_training_equals_torchvision_at_the_box_that_was_drawn():
    from torchvision.transforms.v2 import functional

    crop = Crop(size=16)
    for key in range(60):
        size = tuple(np.random.default_rng(key).integers(1, 90, 2).tolist())
        view = crop.view(size, key)
        left, top, width, height = view.box
        image = functional.resized_crop(picture(*size), top, left, height, width, [16, 16])
        if view.is_mirrored:
            image = functional.horizontal_flip(image)
        scaled = functional.to_dtype(functional.pil_to_tensor(image), torch.float32, scale=True)
        assert torch.equal(crop(picture(*size), key), functional.normalize(scaled, crop.mean, crop.std))


def test_training_crops_may_have_another_size_than_those_for_evaluation():
    image = picture(60, 40)
    smaller, usual = Crop(size=32, train_size=16), Crop(size=16)
    assert torch.equal(smaller(image, None), Crop(size=32)(image, None))
    for key in range(10):
        assert torch.equal(smaller(image, key), usual(image, key))


def test_a_part_that_is_drawn_equals_the_crop_done_by_hand():
    image = picture()
    crop = Crop(size=16, flip=False)
    left, top, width, height = random_crop(60, 40, scale_low=0.08, generator=torch_generator(5))
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
    left, top, width, height = np.array(parts).T
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
        left, top, wide, tall = random_crop(width, height, scale_low=0.9, generator=torch_generator(key))
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


def test_importing_the_module_does_not_import_torchvision():
    code = "import sys, unseen.data.transforms; sys.exit('torchvision' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize(
    "transform",
    [Crop(size=32), Crop(size=32, scale_low=0.5), Plain(size=32), Plain()],
    ids=["crop", "large crops", "resized", "plain"],
)
def test_the_reduction_is_the_largest_that_keeps_twice_the_pixels_across_and_down(transform):
    for key in (None, *range(200)):
        size = tuple(np.random.default_rng(key).integers(1, 1800, 2).tolist())
        box, resized, _, _ = transform.view(size, key)
        reduction = transform.view(size, key).reduction
        room = min(box.width / resized[0], box.height / resized[1]) / 2
        assert reduction == 1 or reduction <= room
        assert reduction + 1 > room


def ramp(width, height):
    """Red grows from left to right and green from top to bottom, so that a shift by part of a pixel shows."""
    rows, columns = np.mgrid[0:height, 0:width]
    return np.stack([columns * 255 / width, rows * 255 / height, 128 + 0 * rows], 2).round().astype(np.uint8)


@pytest.mark.parametrize("size", [(1024, 768), (1001, 761), (250, 1001)])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_reduced_file_shows_the_same_place_in_the_same_colours(tmp_path, size, orientation):
    path = tmp_path / "ramp.jpg"
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(ramp(*size)).save(path, quality=95, subsampling=0, exif=exif)
    transforms = Crop(size=20, std=(1, 1, 1)), Crop(size=60, resize=80, std=(1, 1, 1)), Plain(size=40, std=(1, 1, 1))
    reductions = set()
    for transform in transforms:
        for key in (None, *range(6)):
            encoded = EncodedImage(path)
            view = transform.view(encoded.size, key)
            decoded = encoded.decode(view.reduction)
            reductions.add(decoded.reduction)
            difference = 255 * (transform.tensor(decoded, view) - transform(decode(path), key)).abs()
            # JPEG's own rounding is up to 4 levels here. Half a pixel of 1/8 would shift every value by about 1.
            assert difference.max() < 5
            assert difference.mean() < 0.7
    assert reductions >= ({2, 4, 8} if min(size) > 700 else {1, 2, 4})


def test_no_reduction_gives_the_bits_of_the_whole_image(tmp_path):
    path = tmp_path / "small.jpg"
    Image.fromarray(ramp(90, 80)).save(path)
    for transform in (Crop(size=64), Plain(), Plain(size=64)):
        for key in (None, *range(5)):
            encoded = EncodedImage(path)
            view = transform.view(encoded.size, key)
            assert torch.equal(transform.tensor(encoded.decode(view.reduction), view), transform(decode(path), key))
