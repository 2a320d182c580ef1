"""Samples-per-class as two papers' code draws it: R with replacement, D as a stream of all classes."""

import numpy as np

from unseen.core.errors import ConfigError
from unseen.core.randomness import derive, numpy_generator
from unseen.samplers.base import BatchPosition, ItemsByClass


class ReplacementBatches:
    """R's code: classes and images drawn with replacement, so that a batch can hold a class or an image twice."""

    def __init__(self, labels: np.ndarray, seed: int, batch_size: int, per_class: int) -> None:
        self._grouped = ItemsByClass(labels)
        self._order = np.argsort(labels, kind="stable")
        self.seed, self.batch_size, self.per_class = seed, batch_size, per_class
        self.batches_per_epoch = max(1, len(labels) // batch_size)

    def batch(self, place: BatchPosition) -> np.ndarray:
        """Positions of the batch's items, draw by draw."""
        generator = numpy_generator(derive(self.seed, "reference", *place))
        classes = generator.integers(len(self._grouped.counts), size=self.batch_size // self.per_class)
        chosen = generator.integers(self._grouped.counts[classes, None], size=(len(classes), self.per_class))
        return self._order[self._grouped.starts[classes, None] + chosen].ravel()


class ClassStreamBatches:
    """D's code: an epoch shows every class once, n images each, in one random order that batches are cut from.

    A class may be cut in two by the end of a batch; what does not fill a batch at the end of the epoch is left out.

    Raises: ConfigError when all classes together do not fill a batch
    """

    def __init__(self, labels: np.ndarray, seed: int, batch_size: int, per_class: int) -> None:
        self._grouped = ItemsByClass(labels)
        self.seed, self.batch_size, self.per_class = seed, batch_size, per_class
        self.batches_per_epoch = len(self._grouped.counts) * per_class // batch_size
        if self.batches_per_epoch == 0:
            raise ConfigError(
                f"SamplesPerClass: {len(self._grouped.counts)} classes of {per_class} images do not fill a batch of"
                f" {batch_size} in an epoch of draw=stream",
                hint="Use a smaller batch_size or draw=dealt.",
            )
        self._epoch: tuple[int, np.ndarray] = (-1, np.empty(0, dtype=np.int64))

    def batch(self, place: BatchPosition) -> np.ndarray:
        """Positions of the batch's items, class by class."""
        if self._epoch[0] != place.epoch:
            generator = numpy_generator(derive(self.seed, "stream", place.epoch))
            classes = generator.permutation(len(self._grouped.counts))
            self._epoch = (place.epoch, self._grouped.drawn(classes, self.per_class, generator).ravel())
        return self._epoch[1][place.batch * self.batch_size : (place.batch + 1) * self.batch_size]
