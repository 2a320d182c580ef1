"""Samples-per-class as in the code of two papers: with replacement (Roth et al. 2020), as a stream (Qi et al. 2020)."""

import numpy as np

from unseen.core.errors import ConfigError
from unseen.core.randomness import derive, numpy_generator
from unseen.samplers.base import BatchPosition, ItemsByClass


class ReplacementBatches:
    """Roth et al.: classes and images are drawn with replacement, so a batch can have a class or an image twice."""

    def __init__(self, labels: np.ndarray, seed: int, batch_size: int, per_class: int) -> None:
        self._items = ItemsByClass(labels)
        self._order = np.argsort(labels, kind="stable")
        self.seed, self.batch_size, self.per_class = seed, batch_size, per_class
        self.batches_per_epoch = max(1, len(labels) // batch_size)

    def batch(self, position: BatchPosition) -> np.ndarray:
        """Return the indices of the batch's items."""
        generator = numpy_generator(derive(self.seed, "reference", *position))
        classes = generator.integers(len(self._items.counts), size=self.batch_size // self.per_class)
        chosen = generator.integers(self._items.counts[classes, None], size=(len(classes), self.per_class))
        return self._order[self._items.starts[classes, None] + chosen].ravel()


class ClassStreamBatches:
    """Qi et al.: an epoch is every class once with n images, in random order, divided into batches.

    The end of a batch may divide a class; an incomplete batch at the end of the epoch is dropped.

    Raises:  `ConfigError` if all classes together do not fill a batch
    """

    def __init__(self, labels: np.ndarray, seed: int, batch_size: int, per_class: int) -> None:
        self._items = ItemsByClass(labels)
        self.seed, self.batch_size, self.per_class = seed, batch_size, per_class
        self.batches_per_epoch = len(self._items.counts) * per_class // batch_size
        if self.batches_per_epoch == 0:
            raise ConfigError(
                f"SamplesPerClass: {len(self._items.counts)} classes of {per_class} images do not fill a batch of"
                f" {batch_size} in an epoch of draw=stream",
                hint="Set a smaller batch_size or draw=dealt.",
            )
        self._epoch: tuple[int, np.ndarray] = (-1, np.empty(0, dtype=np.int64))

    def batch(self, position: BatchPosition) -> np.ndarray:
        """Return the indices of the batch's items, class by class."""
        if self._epoch[0] != position.epoch:
            generator = numpy_generator(derive(self.seed, "stream", position.epoch))
            classes = generator.permutation(len(self._items.counts))
            self._epoch = (position.epoch, self._items.draw(classes, self.per_class, generator).ravel())
        return self._epoch[1][position.batch * self.batch_size : (position.batch + 1) * self.batch_size]
