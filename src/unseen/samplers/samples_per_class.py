"""Samples-per-class: batches of b/n classes with n images each."""

from collections.abc import Callable
from typing import Literal

import numpy as np

from unseen.core.checks import check_choice
from unseen.core.randomness import derive, numpy_generator
from unseen.core.registry import sampler
from unseen.samplers.base import Batches, BatchPosition, ItemsByClass, check_composition
from unseen.samplers.reference_variants import ClassStreamBatches, ReplacementBatches

Draws = Literal["dealt", "reference", "stream"]


@sampler("samples_per_class")
class SamplesPerClass:
    """Batches of b/n classes with n images each; every round visits every class once.

    A round is a random order of all C classes, b/n per batch; the last batch of a round is filled up with classes from
    the start of the same order. The images of a class are dealt in the same way: a class of s images has shown all of
    them after ceil(s / n) rounds. Both are functions of seed and batch number; there is no state.

    ==============  =================================================================
    batch_size      b, images in a batch
    per_class       n, images of one class in a batch; b is a multiple of n
    draw            "dealt", as above; "reference", with replacement as Roth et al.;
                    "stream", every class once per epoch as Qi et al.
    ==============  =================================================================

    Empty:      a class with fewer than n images repeats them; with C < b/n classes every batch has all of them, b/C
                images each (the first few one more)
    Reference:  Roth et al., Revisiting Training Strategies, ICML 2020, arXiv:2002.08473 (SPC-n)
    Differs:    the authors draw classes and images with replacement, so a batch can have an image twice
                (draw="reference"); Qi et al. (arXiv:1912.11194) divide a stream of all classes (draw="stream")
    """

    def __init__(self, *, batch_size: int = 112, per_class: int = 2, draw: Draws = "dealt") -> None:
        check_composition("SamplesPerClass", batch_size, per_class)
        check_choice("SamplesPerClass", "draw", draw, ("dealt", "reference", "stream"))
        self.batch_size, self.per_class, self.draw = batch_size, per_class, draw

    def batches(self, labels: np.ndarray, seed: int) -> Batches:
        """Return the batches over items with these labels, as indices into `labels`."""
        kinds: dict[str, Callable[[np.ndarray, int, int, int], Batches]] = {
            "dealt": RoundRobinBatches,
            "reference": ReplacementBatches,
            "stream": ClassStreamBatches,
        }
        return kinds[self.draw](labels, seed, self.batch_size, self.per_class)


class RoundRobinBatches:
    """The batches of `SamplesPerClass`, a pure function of seed and position."""

    def __init__(self, labels: np.ndarray, seed: int, batch_size: int, per_class: int) -> None:
        self._members = np.split(np.argsort(labels, kind="stable"), ItemsByClass(labels).starts[1:])
        self.seed, self.batch_size = seed, batch_size
        self.classes_per_batch = min(batch_size // per_class, len(self._members))
        self.per_class = batch_size // self.classes_per_batch
        self.batches_per_round = -(-len(self._members) // self.classes_per_batch)
        self.batches_per_epoch = max(1, len(labels) // batch_size)
        # The dealt images of all classes are in one array, so that a batch is one lookup. It only caches what follows
        # from the keys, until a class is dealt again.
        self._visits = np.array([-(-len(members) // self.per_class) for members in self._members])
        self._starts = np.concatenate([[0], np.cumsum(self._visits[:-1])]) * self.per_class
        self._dealt = np.empty(int(self._visits.sum()) * self.per_class, dtype=np.int64)
        self._deals = np.full(len(self._members), -1)
        self._order: tuple[int, np.ndarray] = (-1, np.empty(0, dtype=np.int64))

    def batch(self, position: BatchPosition) -> np.ndarray:
        """Return the indices of the batch's items, class by class."""
        round_, slot = divmod(position.epoch * self.batches_per_epoch + position.batch, self.batches_per_round)
        order = self._class_order(round_)
        first = slot * self.classes_per_batch
        regular = order[first : first + self.classes_per_batch]
        dealt = self._deal(regular, round_)
        filling = order[: self.classes_per_batch - len(regular)]
        missing = order[: self.batch_size - self.classes_per_batch * self.per_class]
        if len(filling) + len(missing) == 0:
            return dealt.ravel()
        generator = numpy_generator(derive(self.seed, "filling", round_, slot))
        filled = [np.resize(generator.permutation(self._members[label]), self.per_class) for label in filling]
        filled += [self._one_more(label, dealt[row], generator) for row, label in enumerate(missing)]
        return np.concatenate([dealt.ravel(), *filled])

    def _class_order(self, round_: int) -> np.ndarray:
        if self._order[0] != round_:
            generator = numpy_generator(derive(self.seed, "classes", round_))
            self._order = (round_, generator.permutation(len(self._members)))
        return self._order[1]

    def _deal(self, classes: np.ndarray, round_: int) -> np.ndarray:
        """Return the images of each class in a round: (classes, per_class)."""
        deals, visits = np.divmod(round_, self._visits[classes])
        is_used_up = self._deals[classes] != deals
        for label, deal in zip(classes[is_used_up], deals[is_used_up], strict=True):
            generator = numpy_generator(derive(self.seed, "images", int(label), int(deal)))
            start, count = self._starts[label], self._visits[label] * self.per_class
            self._dealt[start : start + count] = np.resize(generator.permutation(self._members[label]), count)
        self._deals[classes] = deals
        firsts = self._starts[classes] + visits * self.per_class
        return self._dealt[firsts[:, None] + np.arange(self.per_class)]

    def _one_more(self, label: int, dealt: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Draw one more image of a class, a new one if there is one."""
        others = np.setdiff1d(self._members[label], dealt)
        return generator.permutation(others if len(others) else self._members[label])[:1]
