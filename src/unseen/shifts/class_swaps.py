"""Class swaps and removals: from one class split to harder and to easier ones."""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
Labels = NDArray[np.int64]

MIN_CLASSES = 8
"""Classes that each side keeps at least: with fewer, a quarter for validation would be a single class."""


class ClassSplit(NamedTuple):
    """The training classes and the test classes, each in its slot: a swap exchanges the contents of two slots."""

    train: Labels
    test: Labels


def own_side_margin(means: Values, own: Labels, other: Labels) -> Values:
    r"""How much nearer each class is to the mean of its own side than to that of the other.

    .. math:: \|c - \mu_{other}\| - \|c - \mu_{own}\|

    Shape:  class means (C, d), n own and m other classes -> (n)
    """
    to_other = np.linalg.norm(means[own] - means[other].mean(axis=0), axis=1)
    to_own = np.linalg.norm(means[own] - means[own].mean(axis=0), axis=1)
    return to_other - to_own


def swap_classes(
    means: Values, start: ClassSplit, *, swaps: int, iterations: int, history: int, easier: bool = False
) -> Iterator[ClassSplit]:
    """The splits that swapping classes leads to, the start first, with `swaps` swaps from one to the next.

    Each iteration orders the classes of both sides by `own_side_margin` and exchanges those with the smallest margins,
    so that the sides move apart; with `easier` those with the largest, so that the sides mix. Slots among the last
    `history` swaps are skipped, so that no class goes back and forth.

    Empty:      where every slot is in the history, the remaining swaps are left out
    Reference:  Milbich et al., Characterizing Generalization under Out-Of-Distribution Shifts in Deep Metric Learning,
                NeurIPS 2021, arXiv:2107.09562
    Differs:    a history longer than half of the smaller side counts as that half: small data would stand still
    """
    split = ClassSplit(start.train.copy(), start.test.copy())
    length = min(history, len(split.train) // 2, len(split.test) // 2)
    recent: tuple[deque[int], deque[int]] = (deque(maxlen=length), deque(maxlen=length))
    for iteration in range(iterations):
        if iteration:
            orders = _move_orders(means, split, easier=easier)
            for turn in range(swaps):
                train_slot, test_slot = (
                    next((int(slot) for slot in order[turn:] if slot not in skipped), None)
                    for order, skipped in zip(orders, recent, strict=True)
                )
                if train_slot is None or test_slot is None:
                    break
                split.train[train_slot], split.test[test_slot] = split.test[test_slot], split.train[train_slot]
                recent[0].append(train_slot)
                recent[1].append(test_slot)
        yield ClassSplit(split.train.copy(), split.test.copy())


def remove_classes(means: Values, start: ClassSplit, *, removals: int, iterations: int) -> Iterator[ClassSplit]:
    """The splits that remain when the classes with the smallest margins leave both sides, the first removal first.

    Empty:    ends before a side would have fewer than 8 classes
    Differs:  the authors' code removes classes only where a swap would not raise the distance, and swaps otherwise;
              here classes are always removed, as the paper says
    """
    split = start
    for _ in range(iterations):
        if min(len(split.train), len(split.test)) - removals < MIN_CLASSES:
            return
        train, test = (np.sort(order[removals:]) for order in _move_orders(means, split, easier=False))
        split = ClassSplit(split.train[train], split.test[test])
        yield split


def _move_orders(means: Values, split: ClassSplit, *, easier: bool) -> list[Labels]:
    """The slots of both sides, in the order in which they are to move."""
    orders = [
        np.argsort(own_side_margin(means, own, other), kind="stable")
        for own, other in ((split.train, split.test), (split.test, split.train))
    ]
    return [order[::-1] for order in orders] if easier else orders
