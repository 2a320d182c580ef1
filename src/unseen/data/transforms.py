"""Transforms: an image becomes a tensor; every random choice is derived from the key of the item."""

import importlib
import math
from types import ModuleType
from typing import Protocol

import numpy as np
import torch
from PIL.Image import Image
from torch import Tensor

from unseen.core.checks import check_above, check_between, check_count
from unseen.core.errors import ConfigError
from unseen.core.randomness import torch_generator
from unseen.core.registry import transform

_ATTEMPTS = 10


class Transform(Protocol):
    """Turns an image into the input of a network."""

    def __call__(self, image: Image, key: int | None) -> Tensor:
        """Return the tensor of an RGB image, augmented by the key; None means evaluation, without augmentation."""
        ...


def torchvision_functional() -> ModuleType:
    """Import torchvision's transform functions when first needed: the import takes seconds.

    Raises:  `ConfigError` when torchvision is missing
    """
    try:
        return importlib.import_module("torchvision.transforms.v2.functional")
    except ImportError as problem:
        raise ConfigError(
            f"image transforms need torchvision ({problem})", hint="Run pip install 'unseen[vision]'."
        ) from None


def random_crop(width: int, height: int, *, scale_low: float, generator: torch.Generator) -> tuple[int, int, int, int]:
    """Return top, left, height and width of a random crop.

    Its share of the area is uniform in [scale_low, 1], its aspect ratio log-uniform in [3/4, 4/3]. After ten attempts
    that do not fit it is the largest central crop with an allowed aspect ratio.

    Reference:  Szegedy et al., Going Deeper with Convolutions, CVPR 2015; the draws of torchvision's RandomResizedCrop
    """
    low, high = 3 / 4, 4 / 3
    area, ratio, top, left = torch.rand(4, _ATTEMPTS, generator=generator, dtype=torch.float64).tolist()
    for attempt in range(_ATTEMPTS):
        pixels = width * height * (scale_low + (1 - scale_low) * area[attempt])
        aspect = math.exp(math.log(low) + (math.log(high) - math.log(low)) * ratio[attempt])
        crop_width, crop_height = round(math.sqrt(pixels * aspect)), round(math.sqrt(pixels / aspect))
        if 0 < crop_width <= width and 0 < crop_height <= height:
            first_row = int(top[attempt] * (height - crop_height + 1))
            return first_row, int(left[attempt] * (width - crop_width + 1)), crop_height, crop_width
    crop_width = min(width, max(1, round(height * high)))
    crop_height = min(height, max(1, round(width / low)))
    return (height - crop_height) // 2, (width - crop_width) // 2, crop_height, crop_width


@transform("plain")
class Plain:
    """No augmentation: the normalised image, resized to a square if `size` is set.

    Shape:  image -> (3, H, W) float32, or (3, size, size)
    """

    def __init__(
        self,
        *,
        size: int | None = None,
        mean: tuple[float, float, float] = (0.5, 0.5, 0.5),
        std: tuple[float, float, float] = (0.5, 0.5, 0.5),
    ) -> None:
        if size is not None:
            check_count("Plain", "size", size)
        _check_normalisation("Plain", mean, std)
        self.size, self.mean, self.std = size, tuple(mean), tuple(std)
        # A missing torchvision is reported now, not in the first batch; and loader workers inherit the import.
        self._table = _channel_table(torchvision_functional(), self.mean, self.std)

    def __call__(self, image: Image, key: int | None) -> Tensor:
        """Return the tensor of an RGB image; the key is ignored."""
        if self.size is not None:
            image = torchvision_functional().resize(image, [self.size, self.size])
        return _normalised(np.asarray(image), self._table)


@transform("crop")
class Crop:
    """Random resized crop and horizontal flip for training, centre crop for evaluation.

    =============  ==================================================================================
    size           height and width of the output in pixels, for evaluation and by default for training
    train_size     height and width of the output in training; `size` if None. Smaller crops train faster, and objects
                   in random crops appear larger than in centre crops of the same size
    resize         shorter side before the centre crop; size * 256 / 224, rounded, if None
    scale_low      smallest share of the image's area that a random crop covers
    flip           flip horizontally with probability 1/2
    mean, std      of the RGB channels, scaled to [0, 1]; ImageNet's by default
    =============  ==================================================================================

    Shape:      image -> (3, size, size) float32; in training (3, train_size, train_size)
    Reference:  Touvron et al., Fixing the train-test resolution discrepancy, NeurIPS 2019, arXiv:1906.06423
    """

    def __init__(
        self,
        *,
        size: int = 224,
        train_size: int | None = None,
        resize: int | None = None,
        scale_low: float = 0.08,
        flip: bool = True,
        mean: tuple[float, float, float] = (0.485, 0.456, 0.406),
        std: tuple[float, float, float] = (0.229, 0.224, 0.225),
    ) -> None:
        check_count("Crop", "size", size)
        if train_size is not None:
            check_count("Crop", "train_size", train_size)
        if resize is not None:
            check_count("Crop", "resize", resize, at_least=size)
        check_above("Crop", "scale_low", scale_low, 0)
        check_between("Crop", "scale_low", scale_low, 0, 1)
        _check_normalisation("Crop", mean, std)
        self.size, self.train_size, self.resize, self.scale_low, self.flip = size, train_size, resize, scale_low, flip
        self.mean, self.std = tuple(mean), tuple(std)
        self._table = _channel_table(torchvision_functional(), self.mean, self.std)

    def __call__(self, image: Image, key: int | None) -> Tensor:
        """Return the tensor of the random crop drawn by the key, or of the centre crop."""
        functional = torchvision_functional()
        if key is None:
            resize = self.resize if self.resize is not None else round(self.size * 256 / 224)
            image = functional.center_crop(functional.resize(image, [resize]), [self.size, self.size])
            return _normalised(np.asarray(image), self._table)
        generator = torch_generator(key)
        top, left, height, width = random_crop(image.width, image.height, scale_low=self.scale_low, generator=generator)
        side = self.size if self.train_size is None else self.train_size
        pixels = np.asarray(functional.resized_crop(image, top, left, height, width, [side, side]))
        if self.flip and torch.rand((), generator=generator).item() < 0.5:
            pixels = pixels[:, ::-1]
        return _normalised(pixels, self._table)


def _channel_table(functional: ModuleType, mean: tuple[float, ...], std: tuple[float, ...]) -> np.ndarray:
    """Return the normalised value of each byte for each channel, as torchvision computes it: (3, 256)."""
    values = torch.arange(256, dtype=torch.uint8).repeat(3, 1, 1)
    table = functional.normalize(functional.to_dtype(values, torch.float32, scale=True), list(mean), list(std))
    return table.squeeze(1).numpy()


def _normalised(pixels: np.ndarray, table: np.ndarray) -> Tensor:
    # A table lookup returns the same bits as the computation, in a third of the time.
    tensor = np.empty((3, *pixels.shape[:2]), np.float32)
    for channel in range(3):
        # Every byte is in the table; "clip" saves NumPy the buffer it needs to raise.
        np.take(table[channel], pixels[:, :, channel], out=tensor[channel], mode="clip")
    return torch.from_numpy(tensor)


def _check_normalisation(owner: str, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
    for name, values in (("mean", mean), ("std", std)):
        if len(values) != 3:
            raise ConfigError(f"{owner}: {name} must have 3 numbers, for red, green and blue", got=list(values))
    for value in std:
        check_above(owner, "std", value, 0)
