"""SPC-R: batches of random images of random classes, with at least one positive pair."""

import numpy as np

from unseen.core.checks import check_count
from unseen.core.randomness import derive, numpy_generator
from unseen.core.registry import sampler
from unseen.samplers.base import BatchPosition, ItemsByClass


@sampler("spc_random")
class SamplesPerClassRandom:
    """Batches of b - 1 images of random classes, and one more image of one of these classes.

    Each draw is uniform over classes, whatever their size, and then over the images of the class.

    Empty:      a class that is drawn more often than it has images repeats them; the last image is a new one unless
                the batch has all images of its classes
    Reference:  Roth et al., Revisiting Training Strategies, ICML 2020, arXiv:2002.08473 (SPC-R)
    Differs:    the authors' code can draw an image twice, also as the last one, which is then no positive pair
    """

    def __init__(self, *, batch_size: int = 112) -> None:
        check_count("SamplesPerClassRandom", "batch_size", batch_size, at_least=2)
        self.batch_size = batch_size

    def batches(self, labels: np.ndarray, seed: int) -> "RandomBatches":
        """Return the batches over items with these labels, as indices into `labels`."""
        return RandomBatches(labels, seed, self.batch_size)


class RandomBatches:
    """The batches of `SamplesPerClassRandom`, a pure function of seed and position."""

    def __init__(self, labels: np.ndarray, seed: int, batch_size: int) -> None:
        self._items = ItemsByClass(labels)
        self.seed, self.batch_size = seed, batch_size
        self.batches_per_epoch = max(1, len(labels) // batch_size)

    def batch(self, position: BatchPosition) -> np.ndarray:
        """Return the indices of the batch's items, class by class."""
        generator = numpy_generator(derive(self.seed, "random batch", *position))
        counts = self._items.counts
        times = np.bincount(generator.integers(len(counts), size=self.batch_size - 1), minlength=len(counts))
        members = np.repeat(np.arange(len(counts)), times)
        open_members = members[times[members] < counts[members]]
        times[generator.choice(open_members if len(open_members) else members)] += 1
        order = self._items.shuffle(generator)
        classes = np.repeat(np.arange(len(counts)), times)
        within = np.arange(self.batch_size) - np.repeat(np.cumsum(times) - times, times)
        return order[self._items.starts[classes] + within % counts[classes]]
