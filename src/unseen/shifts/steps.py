"""The steps of a ladder: divisions of the classes from the easiest over the start to the hardest."""

from collections.abc import Callable
from dataclasses import dataclass

from unseen.core.checks import check_count
from unseen.shifts.class_swaps import Sides, remove_classes, swap_classes
from unseen.shifts.incremental_distance import Distances

_NOISE = 0.02
"""A fall of the distance by this share at most is the noise of few classes; a larger one ends the removal."""


@dataclass(frozen=True, eq=False)
class Step:
    """A division with its distance of class means; "-20" is 20 swaps easier than the start "0", "6" is 6 swaps harder,
    and "R22" has lost 22 classes from each side of the last harder one."""

    name: str
    sides: Sides
    distance: float


@dataclass(frozen=True, kw_only=True)
class Walk:
    """How far a ladder is walked from its start.

    ==============  ====================================================================================
    swaps           swaps (and classes removed from each side) from one step to the next; None takes 2 %
                    of the smaller side, which is 2 at CUB and Cars
    easier          steps towards easier divisions; 0 for none
    harder          steps of swaps towards harder ones
    removals        steps of removal after the last swap
    history         slots of each side that were swapped last and are passed over
    easier_history  likewise, on the way to easier divisions
    ==============  ====================================================================================
    """

    swaps: int | None = None
    easier: int = 14
    harder: int = 24
    removals: int = 33
    history: int = 5
    easier_history: int = 30

    def __post_init__(self) -> None:
        if self.swaps is not None:
            check_count("Walk", "swaps", self.swaps)
        for name in ("easier", "harder", "removals", "history", "easier_history"):
            check_count("Walk", name, getattr(self, name), at_least=0)

    def swaps_for(self, sides: Sides) -> int:
        """The swaps of a step from a start of this size."""
        return self.swaps or max(1, round(0.02 * min(len(sides.train), len(sides.test))))


def walk_ladder(
    distances: Distances, start: Sides, walk: Walk, progress: Callable[[int, str], None] = lambda done, words: None
) -> list[Step]:
    """All steps, the easiest first: easier swaps in reverse, the start, harder swaps, removals.

    ``progress`` is given the number of steps done and words on the last.

    Differs:  removal starts from the last swap that was measured (the authors' script starts one swap later) and ends
              where the distance of class means falls by more than 2 %; sides keep at least 8 classes
    """
    swaps = walk.swaps_for(start)
    done: list[Step] = []

    def step(name: str, sides: Sides) -> Step:
        made = Step(name, sides, distances.between(sides, "class"))
        done.append(made)
        progress(len(done), f"step {name}: {made.distance:.4g}")
        return made

    def along(steps: int, history: int, sign: int) -> list[Step]:
        path = swap_classes(distances.means, start, swaps=swaps, iterations=steps + 1, history=history, easier=sign < 0)
        return [step(str(sign * number * swaps), sides) for number, sides in enumerate(path) if number or sign > 0]

    harder = along(walk.harder, walk.history, 1)
    removed: list[Step] = []
    last = harder[-1]
    gone = remove_classes(distances.means, last.sides, removals=swaps, iterations=walk.removals)
    for number, sides in enumerate(gone, start=1):
        made = step(f"R{number * swaps}", sides)
        if made.distance < (1 - _NOISE) * last.distance:
            break
        removed.append(made)
        last = made
    easier = along(walk.easier, walk.easier_history, -1)
    return [*easier[::-1], *harder, *removed]
