"""The stream of training batches: it can start at any step, and is the same for any number of loader workers."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, pairwise

import numpy as np

from unseen.core.randomness import derive
from unseen.data.batches import Batch, CatalogueDataset, ItemKey, make_loader
from unseen.samplers import Batches, BatchPosition, EmbeddingAwareBatches

_ODD = 0x9E3779B97F4A7C15
_BITS = 2**63 - 1


@dataclass(frozen=True)
class ItemKeys:
    """The item keys of the batches `first` to `last` of a run; each follows from seed, epoch, batch and position.

    With several views a batch holds the first view of all its items, then the second view of all of them.
    """

    batches: Batches
    indices: np.ndarray
    seed: int
    first: int
    last: int
    views: int = 1

    def __len__(self) -> int:
        return max(0, self.last - self.first)

    def __iter__(self) -> Iterator[list[ItemKey]]:
        for step in range(self.first, self.last):
            epoch, batch = divmod(step, self.batches.batches_per_epoch)
            key = derive(self.seed, "items", epoch, batch)
            items = self.indices[self.batches.batch(BatchPosition(epoch, batch))].tolist() * self.views
            yield [ItemKey(index, (key + position * _ODD) & _BITS) for position, index in enumerate(items)]


def stream(items: CatalogueDataset, keys: ItemKeys, *, workers: int = 0) -> Iterator[Batch]:
    """Load the batches of these keys.

    Loader workers ask for batches ahead. Where the batches of an epoch follow from the embeddings of the one before,
    none is asked for until that one is over: each epoch then has a loader of its own.
    """
    ends = [keys.first, keys.last]
    if isinstance(keys.batches, EmbeddingAwareBatches):
        length = keys.batches.batches_per_epoch
        ends[1:1] = range((keys.first // length + 1) * length, keys.last, length)
    parts = (replace(keys, first=first, last=last) for first, last in pairwise(ends))
    return chain.from_iterable(make_loader(items, part, workers=workers) for part in parts)
