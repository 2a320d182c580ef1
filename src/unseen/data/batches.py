"""Batches: item keys in, tensors out, loaded ahead; the same tensors for any number of threads and processes."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from functools import cached_property, partial
from threading import Event
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import PIL
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, default_collate, get_worker_info

from unseen.core.checks import check_count
from unseen.core.errors import ConfigError, DataError, UnseenError
from unseen.core.processes import die_with_parent
from unseen.core.randomness import torch_generator
from unseen.data.catalogue import Catalogue
from unseen.data.decoding import AT_FULL_SIZE, REDUCED
from unseen.data.item_readers import FeatureArray, ImageFiles, ImagesInMemory
from unseen.data.row_cache import CachedRows
from unseen.data.transforms import Transform, ViewTransform

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
    """A data set that loads a whole batch at once; `__getitems__` is called from several threads."""

    @property
    def is_in_memory(self) -> bool:
        """Whether a batch is loaded too quickly for threads to be of use."""
        ...

    def __getitems__(self, keys: Sequence[Key]) -> Loaded: ...


class Loader(Protocol[Loaded]):
    """The batches of some keys; each iteration loads them anew."""

    def __iter__(self) -> Iterator[Loaded]: ...

    def __len__(self) -> int: ...


class CatalogueDataset(Dataset[Batch]):
    """The items of a catalogue as tensors, loaded a batch at a time.

    ==================  ===================================================================================
    features            (B, D), without a transform
    cached rows         (B, ...), without a transform; the random key selects one of the cached views
    images in memory    (B, 1 or 3, H, W) in [-1, 1] without a transform; RGB through the transform with one
    image files         verified to be unchanged, decoded as RGB and put through the transform
    ==================  ===================================================================================

    A transformed batch is in memory as (B, H, W, 3), torch's `channels_last`.

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

    @property
    def is_in_memory(self) -> bool:
        """Whether a batch needs neither files nor a transform."""
        return self.transform is None

    @property
    def decoding(self) -> dict[str, str] | None:
        """How image files are decoded, for the protocol of a number; None for other data."""
        if not isinstance(self.catalogue.reader, ImageFiles):
            return None
        is_reduced = isinstance(self.transform, ViewTransform) and self.transform.draft
        return {"jpeg": REDUCED if is_reduced else AT_FULL_SIZE, "library": f"Pillow {PIL.__version__}"}

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
            if isinstance(transform, ViewTransform) and transform.draft:
                encoded = reader.encoded(item_key.index)
                view = transform.view(encoded.size, item_key.key)
                return transform.tensor(encoded.decode(view.reduction), view)
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
) -> Loader[Value]:
    """Return a loader with one batch for each sequence of keys, in order; the same batches for any `workers`.

    =============  =============================================================================================
    workers = 0    a thread or two of this process load ahead of the caller; none if the data is in memory
    workers > 0    so many processes load ahead; only worth it where threads hold each other up
    =============  =============================================================================================

    Threads and processes end when the iteration ends, also by an error, by Ctrl-C, or by a caller that stops early.
    Sequences of keys are taken in the caller's thread, a few batches ahead.

    Raises:  an `UnseenError` of the data set unchanged, in place of the batch
    """
    check_count("make_loader", "workers", workers, at_least=0)
    if workers:
        return _ProcessLoader(
            _ErrorsAsItems(dataset),
            batch_sampler=keys,  # type: ignore[arg-type]  # torch asks for lists, any sequence does
            num_workers=workers,
            collate_fn=_unchanged,
            multiprocessing_context=start_method,
            # Without it the DataLoader draws a seed for its workers from the global generator. Nothing here uses it.
            generator=torch_generator(0),
            worker_init_fn=partial(_end_with, os.getpid()),
        )
    return ThreadLoader(dataset, keys, 0 if dataset.is_in_memory else loader_threads())


def loader_threads() -> int:
    """The number of threads that load batches: one for every two that compute, at most four."""
    return min(max(torch.get_num_threads() // 2, 1), 4)


def _end_with(parent: int, worker: int) -> None:
    # A worker notices only after seconds that its parent process died; the kernel does at once.
    die_with_parent(parent)


class ThreadLoader(Generic[Key, Value]):
    """Loads batches in threads of this process, each of which calls `start` first; directly if `threads` is 0."""

    def __init__(
        self,
        dataset: BatchDataset[Key, Value],
        keys: Iterable[Sequence[Key]],
        threads: int,
        start: Callable[[], None] | None = None,
    ) -> None:
        self.dataset, self.keys, self.threads, self.start = dataset, keys, threads, start

    def __len__(self) -> int:
        if not isinstance(self.keys, Sized):
            raise TypeError("these keys have no length")  # what `list` expects of an iterator
        return len(self.keys)

    def __iter__(self) -> Iterator[Value]:
        if not self.threads:
            yield from map(self.dataset.__getitems__, self.keys)
            return
        pool, is_over = ThreadPoolExecutor(self.threads, "unseen-loader", self.start), Event()
        loading: deque[Future[Value]] = deque()
        try:
            for batch_keys in self.keys:
                loading.append(pool.submit(self.dataset.__getitems__, _KeysUntil(is_over, batch_keys)))
                # One more batch than threads: a thread has its next batch before the caller takes the last one.
                if len(loading) > self.threads + 1:
                    yield loading.popleft().result()
            while loading:
                yield loading.popleft().result()
        finally:
            is_over.set()
            pool.shutdown(cancel_futures=True)  # waits for at most one item of each thread


class _KeysUntil(list[Value]):
    """The keys of a batch; iterating over them fails once the loader is over, so that a thread stops within a batch."""

    def __init__(self, is_over: Event, keys: Sequence[Value]) -> None:
        super().__init__(keys)
        self._is_over = is_over

    def __iter__(self) -> Iterator[Value]:
        for key in super().__iter__():
            if self._is_over.is_set():
                raise CancelledError
            yield key


class _ErrorsAsItems(Dataset[Value], Generic[Key, Value]):
    """Returns errors as values: torch would replace their message by a traceback."""

    def __init__(self, dataset: BatchDataset[Key, Value]) -> None:
        self.dataset = dataset

    def __getitems__(self, keys: Sequence[Key]) -> Value | UnseenError:
        try:
            return self.dataset.__getitems__(keys)
        except UnseenError as problem:
            return problem


class _ProcessLoader(DataLoader[Value]):
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
    # In memory as (B, H, W, 3), the format in which convolutions on CPUs are fastest.
    rows = [image.permute(1, 2, 0) for image in images]
    if get_worker_info() is not None:
        stacked: Tensor = default_collate(rows)  # directly into shared memory, which saves a copy
    else:
        # torch would start computing threads for this loader thread, which compete with those of the network.
        stacked = torch.from_numpy(np.stack([row.numpy() for row in rows]))
    return stacked.permute(0, 3, 1, 2)
