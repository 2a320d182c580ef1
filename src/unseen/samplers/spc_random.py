"""SPC-R: a batch of random images of random classes, with one positive pair for certain."""

import numpy as np

from unseen.core.checks import check_count
from unseen.core.randomness import derive, numpy_generator
from unseen.core.registry import sampler
from unseen.samplers.base import BatchPosition, ItemsByClass


@sampler("spc_random")
class SamplesPerClassRandom:
    """Batches of b - 1 images of classes drawn at random, and one more image of a class among them.

    Every draw takes a class uniformly, whatever its size, and then an image of it uniformly.

    Empty:      a class that is drawn more often than it has images repeats them; the last image is one that the batch
                does not hold yet unless it holds all images of its classes
    Reference:  Roth et al., Revisiting Training Strategies, ICML 2020, arXiv:2002.08473 (SPC-R)
    Differs:    the authors' code can draw an image twice, the last one too, which then is no positive pair
    """

    def __init__(self, *, batch_size: int = 112) -> None:
        check_count("SamplesPerClassRandom", "batch_size", batch_size, at_least=2)
        self.batch_size = batch_size

    def batches(self, labels: np.ndarray, seed: int) -> "RandomBatches":
        """The batches over items with these labels; positions refer to `labels`."""
        return RandomBatches(labels, seed, self.batch_size)


class RandomBatches:
    """What `SamplesPerClassRandom` draws from one set of labels: `batch(place)` is a pure function."""

    def __init__(self, labels: np.ndarray, seed: int, batch_size: int) -> None:
        self._grouped = ItemsByClass(labels)
        self.seed, self.batch_size = seed, batch_size
        self.batches_per_epoch = max(1, len(labels) // batch_size)

    def batch(self, place: BatchPosition) -> np.ndarray:
        """Positions of the batch's items, class by class."""
        generator = numpy_generator(derive(self.seed, "random batch", *place))
        counts = self._grouped.counts
        times = np.bincount(generator.integers(len(counts), size=self.batch_size - 1), minlength=len(counts))
        members = np.repeat(np.arange(len(counts)), times)
        open_members = members[times[members] < counts[members]]
        times[generator.choice(open_members if len(open_members) else members)] += 1
        order = self._grouped.shuffled(generator)
        classes = np.repeat(np.arange(len(counts)), times)
        turns = np.arange(self.batch_size) - np.repeat(np.cumsum(times) - times, times)
        return order[self._grouped.starts[classes] + turns % counts[classes]]
