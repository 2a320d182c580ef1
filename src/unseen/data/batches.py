"""Batches: item keys in, tensors out; the same tensors for any number of loader workers."""

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, default_collate

from unseen.core.checks import check_count
from unseen.core.errors import ConfigError, DataError, UnseenError
from unseen.core.processes import die_with_parent
from unseen.core.randomness import torch_generator
from unseen.data.catalogue import Catalogue
from unseen.data.item_readers import FeatureArray, ImageFiles, ImagesInMemory
from unseen.data.row_cache import CachedRows
from unseen.data.transforms import Transform

Key = TypeVar("Key", contravariant=True)
Loaded = TypeVar("Loaded", covariant=True)
Value = TypeVar("Value")


class ItemKey(NamedTuple):
    """An item to load and the random key of its augmentation; None for evaluation, which has no augmentation."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which an item key does not need
    key: int | None


class Batch(NamedTuple):
    """Network inputs (float32), catalogue labels and positions in the catalogue (int64)."""

    inputs: Tensor
    labels: Tensor
    indices: Tensor


class BatchDataset(Protocol[Key, Loaded]):
    """A data set that loads a whole batch at once."""

    def __getitems__(self, keys: Sequence[Key]) -> Loaded: ...


class CatalogueDataset(Dataset[Batch]):
    """The items of a catalogue as tensors, loaded a batch at a time.

    ==================  ===================================================================================
    features            (B, D), without a transform
    cached rows         (B, ...), without a transform; the random key selects one of the cached views
    images in memory    (B, 1 or 3, H, W) in [-1, 1] without a transform; RGB through the transform with one
    image files         verified to be unchanged, decoded as RGB and put through the transform
    ==================  ===================================================================================

    Raises:  `ConfigError` for files without and features with a transform; `DataError` for a file that changed
             or cannot be decoded
    """

    def __init__(self, catalogue: Catalogue, transform: Transform | None = None) -> None:
        if isinstance(catalogue.reader, ImageFiles) and transform is None:
            raise ConfigError("image files need a transform", hint="Set the transform to crop or plain.")
        if isinstance(catalogue.reader, FeatureArray | CachedRows) and transform is not None:
            raise ConfigError("features take no transform", hint="Remove the transform.")
        self.catalogue = catalogue
        self.transform = transform

    def __len__(self) -> int:
        return len(self.catalogue)

    @cached_property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one network input, taken from the first item."""
        if isinstance(self.catalogue.reader, CachedRows):
            return self.catalogue.reader.plain.shape[1:]  # the first item may be missing in the cache
        return tuple(self[ItemKey(0, None)].inputs.shape[1:])

    def __getitem__(self, item_key: ItemKey) -> Batch:
        return self.__getitems__([item_key])

    def __getitems__(self, item_keys: Sequence[ItemKey]) -> Batch:
        """Load the batch of these item keys; the DataLoader calls this."""
        indices = np.fromiter((item_key.index for item_key in item_keys), np.int64, len(item_keys))
        reader = self.catalogue.reader
        if self.transform is not None:
            inputs = _stacked([self._transformed(item_key, self.transform) for item_key in item_keys])
        elif isinstance(reader, FeatureArray):
            inputs = _as_float32(reader.features[indices])
        elif isinstance(reader, CachedRows):
            inputs = _as_float32(reader.rows(indices, [item_key.key for item_key in item_keys]))
        else:
            assert isinstance(reader, ImagesInMemory), "items of an unknown kind need a transform"
            inputs = _scaled(reader.pixels[indices])
        return Batch(inputs, torch.from_numpy(self.catalogue.labels[indices]), torch.from_numpy(indices))

    def _transformed(self, item_key: ItemKey, transform: Transform) -> Tensor:
        reader = self.catalogue.reader
        if isinstance(reader, ImageFiles):
            reader.verify(item_key.index)
        image = reader.image(item_key.index)
        assert image is not None, "only images have a transform"
        return transform(image, item_key.key)


def evaluation_batches(indices: Sequence[int] | np.ndarray, batch_size: int) -> list[list[ItemKey]]:
    """Return item keys without augmentation, in the order of `indices`; the last batch may be smaller."""
    check_count("evaluation_batches", "batch_size", batch_size)
    item_keys = [ItemKey(int(index), None) for index in indices]
    return [item_keys[start : start + batch_size] for start in range(0, len(item_keys), batch_size)]


def make_loader(
    dataset: BatchDataset[Key, Value],
    keys: Iterable[Sequence[Key]],
    *,
    workers: int = 0,
    start_method: str | None = None,
) -> "_Loader[Value]":
    """Return a DataLoader with one batch for each sequence of keys, in order, for any number of workers.

    An `UnseenError` in a worker is raised unchanged in the caller, not wrapped in the worker's traceback.
    """
    check_count("make_loader", "workers", workers, at_least=0)
    return _Loader(
        _ErrorsAsItems(dataset),
        batch_sampler=keys,  # type: ignore[arg-type]  # torch asks for lists, any sequence does
        num_workers=workers,
        collate_fn=_unchanged,
        multiprocessing_context=start_method if workers else None,
        # Without it the DataLoader draws a seed for its workers from torch's global generator. Nothing here uses it.
        generator=torch_generator(0),
        worker_init_fn=partial(_end_with, os.getpid()) if workers else None,
    )


def _end_with(parent: int, worker: int) -> None:
    # A worker notices only after seconds that its parent process died; the kernel does at once.
    die_with_parent(parent)


class _ErrorsAsItems(Dataset[Value], Generic[Key, Value]):
    """Returns errors as values: torch would replace their message by a traceback."""

    def __init__(self, dataset: BatchDataset[Key, Value]) -> None:
        self.dataset = dataset

    def __getitems__(self, keys: Sequence[Key]) -> Value | UnseenError:
        try:
            return self.dataset.__getitems__(keys)
        except UnseenError as problem:
            return problem


class _Loader(DataLoader[Value]):
    # torch's annotation promises its private iterator class, of which nobody needs more than the iteration
    def __iter__(self) -> Iterator[Value]:  # type: ignore[override]
        for batch in super().__iter__():
            if isinstance(batch, UnseenError):
                raise batch
            yield batch


def _unchanged(batch: Value) -> Value:
    return batch


def _as_float32(rows: np.ndarray) -> Tensor:
    # torch converts float16 about six times faster than NumPy, but lacks some of NumPy's integer types.
    return torch.from_numpy(rows).float() if rows.dtype.kind == "f" else torch.from_numpy(rows.astype(np.float32))


def _scaled(pixels: np.ndarray) -> Tensor:
    images = torch.from_numpy(pixels)
    images = images.unsqueeze(1) if images.ndim == 3 else images.permute(0, 3, 1, 2)
    return images.to(torch.float32, memory_format=torch.contiguous_format).div_(127.5).sub_(1)


def _stacked(images: list[Tensor]) -> Tensor:
    shapes = {tuple(image.shape) for image in images}
    if len(shapes) > 1:
        raise DataError(
            "images of a batch differ in size",
            got=sorted(shapes)[:3],
            hint="Set the size of the transform (plain:size=64).",
        )
    return default_collate(images)  # stacks; in a loader worker directly into shared memory, which saves a copy
