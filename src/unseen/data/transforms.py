"""Transforms: a picture becomes a tensor; every random choice follows from the key of its item_key."""

import importlib
import math
from typing import Any, Protocol

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
    """What turns a picture into the input of a network."""

    def __call__(self, image: Image, key: int | None) -> Tensor:
        """The tensor of an RGB picture, augmented by the key; None stands for evaluation, without augmentation."""
        ...


def torchvision_functional() -> Any:
    """The functions of torchvision's transforms, imported when first needed: the import takes seconds.

    Raises:  `ConfigError` when torchvision is missing
    """
    try:
        return importlib.import_module("torchvision.transforms.v2.functional")
    except ImportError as problem:
        raise ConfigError(
            f"transforms of images need torchvision ({problem})", hint="Use pip install 'unseen[vision]'."
        ) from None


def random_crop(width: int, height: int, *, scale_low: float, generator: torch.Generator) -> tuple[int, int, int, int]:
    """Top, left, height, width of a random part of a picture.

    Its share of the area is uniform in [scale_low, 1], its aspect ratio log-uniform in [3/4, 4/3]. After ten attempts
    that do not fit it is the largest part in the middle whose aspect ratio is allowed.

    Reference:  Szegedy et al., Going Deeper with Convolutions, CVPR 2015; the draws of torchvision's RandomResizedCrop
    """
    low, high = 3 / 4, 4 / 3
    area, ratio, top, left = torch.rand(4, _ATTEMPTS, generator=generator, dtype=torch.float64).tolist()
    for attempt in range(_ATTEMPTS):
        pixels = width * height * (scale_low + (1 - scale_low) * area[attempt])
        aspect = math.exp(math.log(low) + (math.log(high) - math.log(low)) * ratio[attempt])
        crop_width, crop_height = round(math.sqrt(pixels * aspect)), round(math.sqrt(pixels / aspect))
        if 0 < crop_width <= width and 0 < crop_height <= height:
            return (
                int(top[attempt] * (height - crop_height + 1)),
                int(left[attempt] * (width - crop_width + 1)),
                crop_height,
                crop_width,
            )
    crop_width = min(width, max(1, round(height * high)))
    crop_height = min(height, max(1, round(width / low)))
    return (height - crop_height) // 2, (width - crop_width) // 2, crop_height, crop_width


@transform("plain")
class Plain:
    """The picture as it is, scaled to numbers; resized to a square if `size` is given, never augmented.

    Shape:  picture -> (3, H, W) float32, or (3, size, size)
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
        _check_colours("Plain", mean, std)
        self.size = size
        self.mean = tuple(mean)
        self.std = tuple(std)
        # A missing torchvision is said now, not in the first batch; and loader workers inherit the import.
        self._table = _colour_table(torchvision_functional(), self.mean, self.std)

    def __call__(self, image: Image, key: int | None) -> Tensor:
        """The tensor of an RGB picture; the key changes nothing."""
        if self.size is not None:
            image = torchvision_functional().resize(image, [self.size, self.size])
        return _normalised(np.asarray(image), self._table)


@transform("crop")
class Crop:
    """A random part of the picture, perhaps mirrored, to train on; its middle to evaluate on.

    =============  ==================================================================================
    size           height and width of the result in pixels
    resize         shorter side before the middle is cut out; size * 256 / 224, rounded, if None
    scale_low      smallest share of the picture's area that a random part has
    flip           mirror left and right in half of the cases
    mean, std      of red, green and blue, which are scaled to [0, 1] first; ImageNet's
    =============  ==================================================================================

    Shape:  picture -> (3, size, size) float32
    """

    def __init__(
        self,
        *,
        size: int = 224,
        resize: int | None = None,
        scale_low: float = 0.08,
        flip: bool = True,
        mean: tuple[float, float, float] = (0.485, 0.456, 0.406),
        std: tuple[float, float, float] = (0.229, 0.224, 0.225),
    ) -> None:
        check_count("Crop", "size", size)
        if resize is not None:
            check_count("Crop", "resize", resize, at_least=size)
        check_above("Crop", "scale_low", scale_low, 0)
        check_between("Crop", "scale_low", scale_low, 0, 1)
        _check_colours("Crop", mean, std)
        self.size = size
        self.resize = resize
        self.scale_low = scale_low
        self.flip = flip
        self.mean = tuple(mean)
        self.std = tuple(std)
        self._table = _colour_table(torchvision_functional(), self.mean, self.std)

    def __call__(self, image: Image, key: int | None) -> Tensor:
        """The tensor of an RGB picture: the part that the key draws, or the middle."""
        functional = torchvision_functional()
        if key is None:
            resize = self.resize if self.resize is not None else round(self.size * 256 / 224)
            image = functional.center_crop(functional.resize(image, [resize]), [self.size, self.size])
            return _normalised(np.asarray(image), self._table)
        generator = torch_generator(key)
        top, left, height, width = random_crop(image.width, image.height, scale_low=self.scale_low, generator=generator)
        pixels = np.asarray(functional.resized_crop(image, top, left, height, width, [self.size, self.size]))
        if self.flip and torch.rand((), generator=generator).item() < 0.5:
            pixels = pixels[:, ::-1]
        return _normalised(pixels, self._table)


def _colour_table(functional: Any, mean: tuple[float, ...], std: tuple[float, ...]) -> np.ndarray:
    """The normalised value of each of the 256 bytes of each colour, as torchvision computes it: (3, 256)."""
    values = torch.arange(256, dtype=torch.uint8).repeat(3, 1, 1)
    table = functional.normalize(functional.to_dtype(values, torch.float32, scale=True), list(mean), list(std))
    return table.squeeze(1).numpy()


def _normalised(pixels: np.ndarray, table: np.ndarray) -> Tensor:
    # Looking a byte up gives the bits of computing it, in a third of the time.
    tensor = np.empty((3, *pixels.shape[:2]), np.float32)
    for colour in range(3):
        # Every byte is in the table; "clip" spares NumPy the buffer it needs to raise.
        np.take(table[colour], pixels[:, :, colour], out=tensor[colour], mode="clip")
    return torch.from_numpy(tensor)


def _check_colours(owner: str, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
    for name, values in (("mean", mean), ("std", std)):
        if len(values) != 3:
            raise ConfigError(f"{owner}: {name} must hold 3 numbers, for red, green and blue", got=list(values))
    for value in std:
        check_above(owner, "std", value, 0)
