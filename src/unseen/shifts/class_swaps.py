"""Class swaps and removals: from one division of the classes to harder and to easier ones."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
Labels = NDArray[np.int64]

FEWEST_CLASSES = 8
"""Classes that a side keeps at least: with fewer, a quarter for validation would be a single class."""


class Sides(NamedTuple):
    """The classes that train and those that test, each in its slot: a swap exchanges the content of two slots."""

    train: Labels
    test: Labels


def foreignness(means: Values, own: Labels, other: Labels) -> Values:
    r"""How foreign each class is to its own side: :math:`\|c - \mu_{other}\| - \|c - \mu_{own}\|`, low for the foreign.

    Shape:  class means (C, d), n own and m other classes -> (n)
    """
    to_other = np.linalg.norm(means[own] - means[other].mean(axis=0), axis=1)
    to_own = np.linalg.norm(means[own] - means[own].mean(axis=0), axis=1)
    return to_other - to_own


def swap_classes(
    means: Values, start: Sides, *, swaps: int, iterations: int, history: int, easier: bool = False
) -> Iterator[Sides]:
    """The divisions that swaps lead to, the start first, `swaps` swaps between one and the next.

    Each time the classes of both sides are ordered by `foreignness`, and the most foreign ones change sides, so that
    the sides draw apart; with `easier` the least foreign ones do, so that the sides mix. Slots that were among the last
    `history` swaps are passed over; so a class does not go back and forth.

    Empty:      where every slot is in the history, the rest of the swaps is left out
    Reference:  Milbich et al., Characterizing Generalization under Out-Of-Distribution Shifts in Deep Metric Learning,
                NeurIPS 2021, arXiv:2107.09562
    Differs:    a history longer than half of the smaller side counts as that half: small data would stand still
    """
    sides = Sides(start.train.copy(), start.test.copy())
    length = min(history, len(sides.train) // 2, len(sides.test) // 2)
    past: tuple[list[int], list[int]] = ([], [])
    for iteration in range(iterations):
        if iteration:
            orders = _orders(means, sides, easier=easier)
            for turn in range(swaps):
                one, two = (
                    _first_free(order, turn, used[max(0, len(used) - length) :])
                    for order, used in zip(orders, past, strict=True)
                )
                if one is None or two is None:
                    break
                sides.train[one], sides.test[two] = sides.test[two], sides.train[one]
                past[0].append(one)
                past[1].append(two)
        yield Sides(sides.train.copy(), sides.test.copy())


def remove_classes(means: Values, start: Sides, *, removals: int, iterations: int) -> Iterator[Sides]:
    """The divisions that are left when the most foreign classes of both sides go, the first removal first.

    Empty:    ends before a side would have fewer than 8 classes
    Differs:  the authors' code removes classes only where a swap would not raise the distance, and swaps otherwise;
              here classes are always removed, as the paper says
    """
    sides = start
    for _ in range(iterations):
        if min(len(sides.train), len(sides.test)) - removals < FEWEST_CLASSES:
            return
        kept = [np.sort(order[removals:]) for order in _orders(means, sides, easier=False)]
        sides = Sides(sides.train[kept[0]], sides.test[kept[1]])
        yield sides


def _orders(means: Values, sides: Sides, *, easier: bool) -> list[Labels]:
    """The slots of both sides, those first that are to move."""
    orders = [
        np.argsort(foreignness(means, own, other), kind="stable")
        for own, other in ((sides.train, sides.test), (sides.test, sides.train))
    ]
    return [order[::-1] for order in orders] if easier else orders


def _first_free(order: Labels, turn: int, recent: Sequence[int]) -> int | None:
    return next((int(slot) for slot in order[turn:] if slot not in recent), None)
