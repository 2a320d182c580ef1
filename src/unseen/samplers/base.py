"""What all samplers share: the position of a batch, the protocols of batches, and draws by class."""

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from unseen.core.checks import check_count
from unseen.core.errors import ConfigError, DataError


class BatchPosition(NamedTuple):
    """The position of a batch in a run; together with the seed it determines the batch."""

    epoch: int
    batch: int


class Batches(Protocol):
    """The batches of a run over labelled items."""

    batches_per_epoch: int

    def batch(self, position: BatchPosition) -> np.ndarray:
        """Return the indices of the batch's items."""
        ...


@runtime_checkable
class EmbeddingAwareBatches(Batches, Protocol):
    """Batches that depend on the embeddings of the run, which the training loop passes to these methods.

    All batches of an epoch are drawn when its first one is requested. So loader workers can prepare them ahead, and
    the loop requests no batch of an epoch before the last step of the previous one was observed.
    """

    def start(self, embeddings: np.ndarray) -> None:
        """Set the embeddings of all items before training, in the order of the labels."""
        ...

    def observe(self, indices: np.ndarray, embeddings: np.ndarray) -> None:
        """Update the embeddings of the items at these indices."""
        ...

    def state(self) -> dict[str, np.ndarray]:
        """Return what a checkpoint needs so that later batches stay the same."""
        ...

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        ...


class ItemsByClass:
    """Items grouped by class, for draws without repetition.

    `classes` is the class of each item (0 ... C - 1), `counts` the number of items of each class, and `starts` the
    first index of each class when items are sorted.
    """

    def __init__(self, labels: np.ndarray) -> None:
        if len(labels) == 0:
            raise DataError("there are no images to draw batches from", hint="The split needs training classes.")
        _, self.classes, self.counts = np.unique(labels, return_inverse=True, return_counts=True)
        self.starts = np.cumsum(self.counts) - self.counts

    def shuffle(self, generator: np.random.Generator) -> np.ndarray:
        """Return all items, class by class, in random order within each class."""
        return np.argsort(self.classes + generator.random(len(self.classes)), kind="stable")

    def draw(self, classes: np.ndarray, per_class: int, generator: np.random.Generator) -> np.ndarray:
        """Draw items of each class: (classes, per_class), distinct until a class has no more."""
        order = self.shuffle(generator)
        return order[self.starts[classes, None] + np.arange(per_class) % self.counts[classes, None]]


def images_per_class(batch_size: int, per_class: int, num_classes: int) -> np.ndarray:
    """Return the number of images of each class in a batch: b/n classes of n, or all classes evenly if there are fewer.

    >>> images_per_class(8, 2, 10).tolist(), images_per_class(8, 2, 3).tolist()
    ([2, 2, 2, 2], [3, 3, 2])
    """
    chosen = min(batch_size // per_class, num_classes)
    parts = np.full(chosen, batch_size // chosen)
    parts[: batch_size % chosen] += 1
    return parts


def check_composition(owner: str, batch_size: int, per_class: int) -> None:
    """Check that a batch consists of complete classes."""
    check_count(owner, "batch_size", batch_size)
    check_count(owner, "per_class", per_class)
    if batch_size % per_class:
        raise ConfigError(f"{owner}: batch_size must be a multiple of per_class = {per_class}", got=batch_size)
