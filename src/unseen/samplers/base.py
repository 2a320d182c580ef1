"""What every sampler shares: the place of a batch, what batches are to the training loop, and draws by class."""

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from unseen.core.checks import check_count
from unseen.core.errors import ConfigError, DataError


class BatchPosition(NamedTuple):
    """Where a batch stands in a run; with the seed it decides everything about the batch."""

    epoch: int
    batch: int


class Batches(Protocol):
    """The batches of a run over items with given labels."""

    batches_per_epoch: int

    def batch(self, place: BatchPosition) -> np.ndarray:
        """Positions of the batch's items."""
        ...


@runtime_checkable
class EmbeddingAwareBatches(Batches, Protocol):
    """Batches that follow the embeddings of the run; whoever has these methods is fed by the training loop.

    All batches of an epoch are drawn when its first one is asked for. So loader workers can prepare them ahead, and
    the loop asks for no batch of an epoch before the last step of the one before is observed.
    """

    def start(self, embeddings: np.ndarray) -> None:
        """Take the embeddings of all items before training, in the order of the labels."""
        ...

    def observe(self, positions: np.ndarray, embeddings: np.ndarray) -> None:
        """Take the new embeddings of the items at these positions."""
        ...

    def state(self) -> dict[str, np.ndarray]:
        """What a checkpoint must hold so that later batches stay the same."""
        ...

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Put back what `state` gave."""
        ...


class ItemsByClass:
    """Items by class, for draws without repetition.

    ========  ==========================================
    classes   the class of each item, 0 ... C - 1
    counts    items of each class
    starts    where a class begins when items are sorted
    ========  ==========================================
    """

    def __init__(self, labels: np.ndarray) -> None:
        if len(labels) == 0:
            raise DataError("there is no image to draw batches from", hint="Use a split with training classes.")
        _, self.classes, self.counts = np.unique(labels, return_inverse=True, return_counts=True)
        self.starts = np.cumsum(self.counts) - self.counts

    def shuffled(self, generator: np.random.Generator) -> np.ndarray:
        """All items, class after class, in random order within each class."""
        return np.argsort(self.classes + generator.random(len(self.classes)), kind="stable")

    def drawn(self, classes: np.ndarray, each: int, generator: np.random.Generator) -> np.ndarray:
        """Items of every listed class, `each` of them, distinct until a class has shown all: classes x each."""
        order = self.shuffled(generator)
        places = np.arange(each) % self.counts[classes, None]
        return order[self.starts[classes, None] + places]


def images_per_class(batch_size: int, per_class: int, classes: int) -> np.ndarray:
    """Images of each class of a batch: b/n classes of n, or b shared evenly among all classes if there are fewer.

    >>> images_per_class(8, 2, 10).tolist(), images_per_class(8, 2, 3).tolist()
    ([2, 2, 2, 2], [3, 3, 2])
    """
    chosen = min(batch_size // per_class, classes)
    parts = np.full(chosen, batch_size // chosen)
    parts[: batch_size % chosen] += 1
    return parts


def check_composition(owner: str, batch_size: int, per_class: int) -> None:
    """Refuse a batch that is not made of whole classes."""
    check_count(owner, "batch_size", batch_size)
    check_count(owner, "per_class", per_class)
    if batch_size % per_class:
        raise ConfigError(f"{owner}: batch_size must be a multiple of per_class = {per_class}", got=batch_size)
