"""Transforms: an image becomes a tensor; every random choice is derived from the key of the item."""

import math
from abc import ABC, abstractmethod
from typing import NamedTuple, Protocol

import numpy as np
import torch
from PIL.Image import Image, Resampling, Transpose
from torch import Tensor

from unseen.core.checks import check_above, check_between, check_count
from unseen.core.errors import ConfigError
from unseen.core.randomness import torch_generator
from unseen.core.registry import transform
from unseen.data.decoding import Decoded

SPARE = 2
"""How much larger than needed a reduced JPEG must be: 1 costs recall (docs/results.md)."""
_ATTEMPTS = 10


class Transform(Protocol):
    """Turns an image into the input of a network."""

    def __call__(self, image: Image, key: int | None) -> Tensor:
        """Return the tensor of an RGB image, augmented by the key; None means evaluation, without augmentation."""
        ...


class Box(NamedTuple):
    """A rectangle in whole pixels."""

    left: int
    top: int
    width: int
    height: int


class View(NamedTuple):
    """What a transform takes from an image: it follows from the image's size, before anything is decoded."""

    box: Box  # of the image at full size,
    resized: tuple[int, int]  # is resized to this width and height,
    window: Box  # of which this part is the view,
    is_mirrored: bool = False

    @property
    def reduction(self) -> int:
        """By how much both sides of the image can be divided; the box keeps `SPARE` times its resized sides."""
        room = min(self.box.width / self.resized[0], self.box.height / self.resized[1])
        return max(1, int(room / SPARE))

    def pixels(self, decoded: Decoded) -> np.ndarray:
        """Return the view as (height, width, 3) uint8.

        From an image at full size it is what torchvision computes by cropping, resizing and cropping again; from a
        reduced image only the window is computed.
        """
        image, box, window = decoded.image, self.box, self.window
        if decoded.reduction > 1:
            across = box.width / self.resized[0] / decoded.reduction
            down = box.height / self.resized[1] / decoded.reduction
            left = decoded.left + box.left / decoded.reduction + window.left * across
            top = decoded.top + box.top / decoded.reduction + window.top * down
            part = (left, top, left + window.width * across, top + window.height * down)
            image = image.resize((window.width, window.height), Resampling.BILINEAR, box=part)
        else:
            image = _cropped(image, box)
            if image.size != self.resized:
                image = image.resize(self.resized, Resampling.BILINEAR)
            image = _cropped(image, window)
        return np.asarray(image.transpose(Transpose.FLIP_LEFT_RIGHT) if self.is_mirrored else image)


class ViewTransform(ABC):
    """A transform that decides on its view before the image is decoded, so that a large JPEG can be reduced.

    Shape:  image -> (3, H, W) float32, in memory as (H, W, 3)
    """

    def __init__(self, mean: tuple[float, ...], std: tuple[float, ...], *, draft: bool) -> None:
        for name, values in (("mean", mean), ("std", std)):
            if len(values) != 3:
                raise ConfigError(
                    f"{type(self).__name__}: {name} must have 3 numbers, for red, green and blue", got=list(values)
                )
        for value in std:
            check_above(type(self).__name__, "std", value, 0)
        self.mean, self.std, self.draft = tuple(mean), tuple(std), draft
        self._mean, self._std = np.array(mean, np.float32), np.array(std, np.float32)

    @abstractmethod
    def view(self, size: tuple[int, int], key: int | None) -> View:
        """Return the view of an image of this width and height, drawn by the key; None means evaluation."""

    def __call__(self, image: Image, key: int | None) -> Tensor:
        """Return the tensor of an RGB image at full size."""
        return self.tensor(Decoded(image), self.view(image.size, key))

    def tensor(self, decoded: Decoded, view: View) -> Tensor:
        """Return the normalised view of an image, to the bit as torchvision computes it."""
        pixels = view.pixels(decoded)
        # A row of pixels at a time: NumPy is slow where the last dimension is the three colours.
        rows = np.multiply(pixels.reshape(len(pixels), -1), np.float32(1 / 255), dtype=np.float32)
        rows -= np.tile(self._mean, pixels.shape[1])
        rows /= np.tile(self._std, pixels.shape[1])
        return torch.from_numpy(rows.reshape(pixels.shape)).permute(2, 0, 1)


def random_crop(width: int, height: int, *, scale_low: float, generator: torch.Generator) -> Box:
    """Return a random crop of an image.

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
            return Box(int(left[attempt] * (width - crop_width + 1)), first_row, crop_width, crop_height)
    crop_width = min(width, max(1, round(height * high)))
    crop_height = min(height, max(1, round(width / low)))
    return Box((width - crop_width) // 2, (height - crop_height) // 2, crop_width, crop_height)


@transform("plain")
class Plain(ViewTransform):
    """No augmentation: the normalised image, resized to a square if `size` is set.

    `draft` reduces large JPEGs while they are decoded, see `Crop`.

    Shape:  image -> (3, H, W) float32, or (3, size, size)
    """

    def __init__(
        self,
        *,
        size: int | None = None,
        mean: tuple[float, float, float] = (0.5, 0.5, 0.5),
        std: tuple[float, float, float] = (0.5, 0.5, 0.5),
        draft: bool = True,
    ) -> None:
        super().__init__(mean, std, draft=draft)
        if size is not None:
            check_count("Plain", "size", size)
        self.size = size

    def view(self, size: tuple[int, int], key: int | None) -> View:
        """Return the whole image; the key is ignored."""
        resized = size if self.size is None else (self.size, self.size)
        return View(Box(0, 0, *size), resized, Box(0, 0, *resized))


@transform("crop")
class Crop(ViewTransform):
    """Random resized crop and horizontal flip for training, centre crop for evaluation.

    =============  ==================================================================================
    size           height and width of the output in pixels, for evaluation and by default for training
    train_size     height and width of the output in training; `size` if None. Smaller crops train faster, and objects
                   in random crops appear larger than in centre crops of the same size
    resize         shorter side before the centre crop; size * 256 / 224, rounded, if None
    scale_low      smallest share of the image's area that a random crop covers
    flip           flip horizontally with probability 1/2
    mean, std      of the RGB channels, scaled to [0, 1]; ImageNet's by default
    draft          decode a JPEG at 1/2, 1/4 or 1/8 of its size if the crop still has twice the height
                   and width of the output; false decodes all pixels
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
        draft: bool = True,
    ) -> None:
        super().__init__(mean, std, draft=draft)
        check_count("Crop", "size", size)
        if train_size is not None:
            check_count("Crop", "train_size", train_size)
        if resize is not None:
            check_count("Crop", "resize", resize, at_least=size)
        check_above("Crop", "scale_low", scale_low, 0)
        check_between("Crop", "scale_low", scale_low, 0, 1)
        self.size, self.train_size, self.resize, self.scale_low, self.flip = size, train_size, resize, scale_low, flip

    def view(self, size: tuple[int, int], key: int | None) -> View:
        """Return the random crop drawn by the key, or the centre crop."""
        width, height = size
        if key is None:
            resize = self.resize if self.resize is not None else round(self.size * 256 / 224)
            longer = int(resize * max(size) / min(size))
            resized = (resize, longer) if width <= height else (longer, resize)
            left, top = (round((side - self.size) / 2) for side in resized)
            return View(Box(0, 0, width, height), resized, Box(left, top, self.size, self.size))
        generator = torch_generator(key)
        side = self.size if self.train_size is None else self.train_size
        box = random_crop(width, height, scale_low=self.scale_low, generator=generator)
        is_mirrored = self.flip and torch.rand((), generator=generator).item() < 0.5
        return View(box, (side, side), Box(0, 0, side, side), is_mirrored)


def _cropped(image: Image, box: Box) -> Image:
    if box == (0, 0, *image.size):
        return image
    return image.crop((box.left, box.top, box.left + box.width, box.top + box.height))
