"""Batches: item_keys in, tensors out; the same ones for any number of loader workers."""

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

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


class ItemKey(NamedTuple):
    """An item to load, and the key of all randomness in loading it; None for evaluation, which has none."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody asks of a item_key
    key: int | None


class Batch(NamedTuple):
    """Inputs of a network (float32), their catalogue labels and their positions in the catalogue (int64)."""

    inputs: Tensor
    labels: Tensor
    indices: Tensor


class CatalogueDataset(Dataset[Any]):
    """The items of a catalogue as tensors, loaded a batch at a time.

    ==================  ===================================================================================
    features            (B, D), no transform
    rows of a cache     (B, ...), no transform; the key of a item_key chooses among the views of its item
    images in memory    (B, 1 or 3, H, W) in [-1, 1] without a transform; with one, each as RGB through it
    image files         each verified to be unchanged, decoded as RGB and put through the transform
    ==================  ===================================================================================

    Raises:  `ConfigError` for files without and features with a transform; `DataError` for a file that changed
             or cannot be decoded whole
    """

    def __init__(self, catalogue: Catalogue, transform: Transform | None = None) -> None:
        if isinstance(catalogue.reader, ImageFiles) and transform is None:
            raise ConfigError("image files need a transform", hint="Use transform crop or plain.")
        if isinstance(catalogue.reader, FeatureArray | CachedRows) and transform is not None:
            raise ConfigError("features take no transform", hint="Use none.")
        self.catalogue = catalogue
        self.transform = transform

    def __len__(self) -> int:
        return len(self.catalogue)

    @cached_property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one input of a network, as the first item has it."""
        if isinstance(self.catalogue.reader, CachedRows):
            return self.catalogue.reader.plain.shape[1:]  # the first item may not be in the cache
        return tuple(self[ItemKey(0, None)].inputs.shape[1:])

    def __getitem__(self, item_key: ItemKey) -> Batch:
        return self.__getitems__([item_key])

    def __getitems__(self, item_keys: Sequence[ItemKey]) -> Batch:
        """The batch of these item_keys; the DataLoader calls this with all of them at once."""
        indices = np.fromiter((item_key.index for item_key in item_keys), np.int64, len(item_keys))
        reader = self.catalogue.reader
        if self.transform is not None:
            inputs = _stacked([self._item(item_key) for item_key in item_keys])
        elif isinstance(reader, FeatureArray):
            inputs = _as_float32(reader.features[indices])
        elif isinstance(reader, CachedRows):
            inputs = _as_float32(reader.rows(indices, [item_key.key for item_key in item_keys]))
        else:
            assert isinstance(reader, ImagesInMemory), "a reader of an unknown kind needs a transform"
            inputs = _scaled(reader.pixels[indices])
        return Batch(inputs, torch.from_numpy(self.catalogue.labels[indices]), torch.from_numpy(indices))

    def _item(self, item_key: ItemKey) -> Tensor:
        reader = self.catalogue.reader
        if isinstance(reader, ImageFiles):
            reader.verify(item_key.index)
        picture = reader.image(item_key.index)
        assert picture is not None, "images have a picture"
        assert self.transform is not None, "only items with a transform are loaded one by one"
        return self.transform(picture, item_key.key)


def evaluation_batches(indices: Sequence[int] | np.ndarray, batch_size: int) -> list[list[ItemKey]]:
    """Item keys for evaluation: these items in order, without augmentation; the last batch may be smaller."""
    check_count("evaluation_batches", "batch_size", batch_size)
    item_keys = [ItemKey(int(index), None) for index in indices]
    return [item_keys[start : start + batch_size] for start in range(0, len(item_keys), batch_size)]


def make_loader(
    dataset: Dataset[Any],
    item_keys: Iterable[Sequence[Any]],
    *,
    workers: int = 0,
    start_method: str | None = None,
) -> "DataLoader[Any]":
    """A DataLoader that gives one batch for each list of item_keys, in their order, whatever the number of workers.

    An `UnseenError` inside a worker reaches the caller as it was raised, not wrapped in a worker's traceback.
    """
    check_count("loader", "workers", workers, at_least=0)
    return _SameErrors(
        _ErrorsAsItems(dataset),
        batch_sampler=item_keys,
        num_workers=workers,
        collate_fn=_unchanged,
        multiprocessing_context=start_method if workers else None,
        # Otherwise the DataLoader draws a seed for its workers from torch's global generator. Nobody here uses it.
        generator=torch_generator(0),
        worker_init_fn=partial(_end_with, os.getpid()) if workers else None,
    )


def _end_with(parent: int, worker: int) -> None:
    # A loader's worker notices the death of its process only seconds later; the kernel does at once.
    die_with_parent(parent)


class _ErrorsAsItems(Dataset[Any]):
    """A data set whose errors travel as values: torch would replace their message by a traceback."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitems__(self, item_keys: Sequence[Any]) -> Any:
        try:
            return self.dataset.__getitems__(item_keys)
        except UnseenError as problem:
            return problem


class _SameErrors(DataLoader[Any]):
    def __iter__(self) -> Iterator[Any]:
        for batch in super().__iter__():
            if isinstance(batch, UnseenError):
                raise batch
            yield batch


def _unchanged(batch: Any) -> Any:
    return batch


def _as_float32(rows: np.ndarray) -> Tensor:
    # torch widens float16 about six times faster than NumPy, but does not know all of NumPy's whole numbers.
    return torch.from_numpy(rows).float() if rows.dtype.kind == "f" else torch.from_numpy(rows.astype(np.float32))


def _scaled(pixels: np.ndarray) -> Tensor:
    images = torch.from_numpy(pixels)
    images = images.unsqueeze(1) if images.ndim == 3 else images.permute(0, 3, 1, 2)
    return images.to(torch.float32, memory_format=torch.contiguous_format).div_(127.5).sub_(1)


def _stacked(items: list[Tensor]) -> Tensor:
    shapes = {tuple(item.shape) for item in items}
    if len(shapes) > 1:
        raise DataError(
            "images of a batch differ in size",
            got=sorted(shapes)[:3],
            hint="Use a transform with a size (plain:size=64).",
        )
    return default_collate(items)  # a stack; inside a loader's worker in shared memory at once, which spares a copy
