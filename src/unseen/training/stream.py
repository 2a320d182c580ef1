"""The stream of training batches: one loader for the whole run, started anywhere, the same for any worker count."""

from collections.abc import Iterator
from itertools import chain, pairwise

import numpy as np

from unseen.core.randomness import derive
from unseen.data.batches import Batch, CatalogueDataset, ItemKey, make_loader
from unseen.samplers import Batches, BatchPosition, EmbeddingAwareBatches

_ODD = 0x9E3779B97F4A7C15
_BITS = 2**63 - 1


class ItemKeys:
    """The item_keys of batches `first` to `last` of a run; an image's key follows from seed, epoch, batch and place.

    With several views a batch holds the first view of all its images, then the second of all of them.
    """

    def __init__(
        self, dealt: Batches, indices: np.ndarray, seed: int, first: int, last: int, *, views: int = 1
    ) -> None:
        self.dealt, self.indices, self.seed, self.first, self.last = dealt, indices, seed, first, last
        self.views = views

    def __len__(self) -> int:
        return max(0, self.last - self.first)

    def __iter__(self) -> Iterator[list[ItemKey]]:
        for step in range(self.first, self.last):
            epoch, batch = divmod(step, self.dealt.batches_per_epoch)
            key = derive(self.seed, "items", epoch, batch)
            chosen = self.indices[self.dealt.batch(BatchPosition(epoch, batch))].tolist() * self.views
            yield [ItemKey(index, (key + place * _ODD) & _BITS) for place, index in enumerate(chosen)]


def stream(
    items: CatalogueDataset,
    dealt: Batches,
    indices: np.ndarray,
    *,
    seed: int,
    first: int,
    last: int,
    workers: int = 0,
    views: int = 1,
) -> Iterator[Batch]:
    """Batches `first` to `last` of a run over the items at `indices`, each item in so many views.

    Loader workers ask for batches ahead. Where the batches of an epoch follow from the embeddings of the one before,
    nothing of it is asked for until that one is over: each epoch then has a loader of its own.
    """
    ends = [first, last]
    if isinstance(dealt, EmbeddingAwareBatches):
        next_epoch = (first // dealt.batches_per_epoch + 1) * dealt.batches_per_epoch
        ends = [first, *range(next_epoch, last, dealt.batches_per_epoch), last]
    parts = (ItemKeys(dealt, indices, seed, *part, views=views) for part in pairwise(ends))
    return chain.from_iterable(make_loader(items, item_keys, workers=workers) for item_keys in parts)
