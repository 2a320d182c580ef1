"""Samples-per-class: a batch is b/n classes with n images each."""

from collections.abc import Callable
from typing import Literal

import numpy as np

from unseen.core.checks import check_choice
from unseen.core.errors import DataError
from unseen.core.randomness import derive, numpy_generator
from unseen.core.registry import sampler
from unseen.samplers.base import Batches, BatchPosition, check_composition
from unseen.samplers.reference_variants import ClassStreamBatches, ReplacementBatches

Draws = Literal["dealt", "reference", "stream"]


@sampler("samples_per_class")
class SamplesPerClass:
    """Batches of b/n classes with n images each; every class is reached in every round.

    A round deals all C classes in a keyed order, b/n to a batch; the last batch of a round is filled up with classes
    from the start of the same order. On its visits a class deals its images in the same way: a class of s images has
    shown all of them after ceil(s / n) rounds. Both are functions of seed and batch number; nothing is carried over.

    ==============  =================================================================
    batch_size      b, images in a batch
    per_class       n, images of one class in a batch; b is a multiple of n
    draw            "dealt", as above; "reference", as R's code: with replacement;
                    "stream", as D's code: an epoch is every class once
    ==============  =================================================================

    Empty:      a class with fewer than n images repeats them; with C < b/n classes every batch holds all of them, b/C
                images each (the first few one more)
    Reference:  Roth et al., Revisiting Training Strategies, ICML 2020, arXiv:2002.08473 (SPC-n)
    Differs:    the authors draw classes and images with replacement, so a batch can hold an image twice
                (draw="reference"); D cuts batches from a stream of all classes (draw="stream")
    """

    def __init__(self, *, batch_size: int = 112, per_class: int = 2, draw: Draws = "dealt") -> None:
        check_composition("SamplesPerClass", batch_size, per_class)
        check_choice("SamplesPerClass", "draw", draw, ("dealt", "reference", "stream"))
        self.batch_size = batch_size
        self.per_class = per_class
        self.draw = draw

    def batches(self, labels: np.ndarray, seed: int) -> Batches:
        """The batches over items with these labels; positions refer to `labels`."""
        kinds: dict[str, Callable[[np.ndarray, int, int, int], Batches]] = {
            "dealt": RoundRobinBatches,
            "reference": ReplacementBatches,
            "stream": ClassStreamBatches,
        }
        return kinds[self.draw](labels, seed, self.batch_size, self.per_class)


class RoundRobinBatches:
    """What `SamplesPerClass` deals from one set of labels: `batch(place)` is a pure function."""

    def __init__(self, labels: np.ndarray, seed: int, batch_size: int, per_class: int) -> None:
        if len(labels) == 0:
            raise DataError("there is no image to draw batches from", hint="Use a split with training classes.")
        order = np.argsort(labels, kind="stable")
        _, starts = np.unique(labels[order], return_index=True)
        self._members = np.split(order, starts[1:])
        self.seed = seed
        self.batch_size = batch_size
        self.classes_per_batch = min(batch_size // per_class, len(self._members))
        self.per_class = batch_size // self.classes_per_batch
        self.batches_per_round = -(-len(self._members) // self.classes_per_batch)
        self.batches_per_epoch = max(1, len(labels) // batch_size)
        # All classes' deals lie in one array, so that a batch is one look-up. They are copies of what the keys give,
        # kept until the next deal of a class; never a state.
        self._visits = np.array([-(-len(members) // self.per_class) for members in self._members])
        self._starts = np.concatenate([[0], np.cumsum(self._visits[:-1])]) * self.per_class
        self._dealt = np.empty(int(self._visits.sum()) * self.per_class, dtype=np.int64)
        self._deals = np.full(len(self._members), -1)
        self._order: tuple[int, np.ndarray] = (-1, np.empty(0, dtype=np.int64))

    def batch(self, place: BatchPosition) -> np.ndarray:
        """Positions of the batch's items, class by class."""
        turn, slot = divmod(place.epoch * self.batches_per_epoch + place.batch, self.batches_per_round)
        order = self._class_order(turn)
        first = slot * self.classes_per_batch
        regular = order[first : first + self.classes_per_batch]
        picks = self._deal(regular, turn)
        filling = order[: self.classes_per_batch - len(regular)]
        missing = order[: self.batch_size - self.classes_per_batch * self.per_class]
        if len(filling) + len(missing) == 0:
            return picks.ravel()
        generator = numpy_generator(derive(self.seed, "filling", turn, slot))
        filled = [np.resize(generator.permutation(self._members[each]), self.per_class) for each in filling]
        filled += [self._one_besides(each, picks[row], generator) for row, each in enumerate(missing)]
        return np.concatenate([picks.ravel(), *filled])

    def _class_order(self, turn: int) -> np.ndarray:
        if self._order[0] != turn:
            generator = numpy_generator(derive(self.seed, "classes", turn))
            self._order = (turn, generator.permutation(len(self._members)))
        return self._order[1]

    def _deal(self, classes: np.ndarray, turn: int) -> np.ndarray:
        """The images that each class shows in a round: classes x per_class."""
        deals, places = np.divmod(turn, self._visits[classes])
        is_used_up = self._deals[classes] != deals
        for each, deal in zip(classes[is_used_up], deals[is_used_up], strict=True):
            generator = numpy_generator(derive(self.seed, "images", int(each), int(deal)))
            start, count = self._starts[each], self._visits[each] * self.per_class
            self._dealt[start : start + count] = np.resize(generator.permutation(self._members[each]), count)
        self._deals[classes] = deals
        firsts = self._starts[classes] + places * self.per_class
        return self._dealt[firsts[:, None] + np.arange(self.per_class)]

    def _one_besides(self, each: int, shown: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """One more image of a class, one that the batch does not hold yet if there is one."""
        others = np.setdiff1d(self._members[each], shown)
        return generator.permutation(others if len(others) else self._members[each])[:1]
