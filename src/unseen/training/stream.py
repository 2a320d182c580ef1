"""The stream of training batches: one loader for the whole run, started anywhere, the same for any worker count."""

from collections.abc import Iterator

import numpy as np

from unseen.core.randomness import derive
from unseen.data.batches import Batch, CatalogueItems, Ticket, loader
from unseen.samplers import DealtBatches, Place

_ODD = 0x9E3779B97F4A7C15
_BITS = 2**63 - 1


class Tickets:
    """The tickets of batches `first` to `last` of a run; an image's key follows from seed, epoch, batch and place."""

    def __init__(self, dealt: DealtBatches, indices: np.ndarray, seed: int, first: int, last: int) -> None:
        self.dealt, self.indices, self.seed, self.first, self.last = dealt, indices, seed, first, last

    def __len__(self) -> int:
        return max(0, self.last - self.first)

    def __iter__(self) -> Iterator[list[Ticket]]:
        for step in range(self.first, self.last):
            epoch, batch = divmod(step, self.dealt.batches_per_epoch)
            key = derive(self.seed, "items", epoch, batch)
            chosen = self.indices[self.dealt.batch(Place(epoch, batch))]
            yield [Ticket(index, (key + place * _ODD) & _BITS) for place, index in enumerate(chosen.tolist())]


def stream(
    items: CatalogueItems,
    dealt: DealtBatches,
    indices: np.ndarray,
    *,
    seed: int,
    first: int,
    last: int,
    workers: int = 0,
) -> Iterator[Batch]:
    """Batches `first` to `last` of a run over the items at `indices`."""
    return iter(loader(items, Tickets(dealt, indices, seed, first, last), workers=workers))
