"""The steps of a ladder: class splits from the easiest over the start to the hardest, and the ladder made of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from unseen.core.checks import check_count
from unseen.core.config import Record
from unseen.core.progress import Progress, no_progress
from unseen.data.catalogue import Catalogue
from unseen.data.splits import shuffle_classes
from unseen.shifts.class_swaps import ClassSplit, remove_classes, swap_classes
from unseen.shifts.episodes import draw_support
from unseen.shifts.incremental_distance import ClassSplitDistances
from unseen.shifts.ladder import Ladder, LadderSource, Rung, StepRecord, item_ids_by_class

_TOLERANCE = 0.02
"""A relative fall of the distance up to this is the noise of few classes; a larger one ends the removal."""


class Step(NamedTuple):
    """A class split with its distance of class means; "-20" is 20 swaps easier than the start "0", "6" is 6 swaps
    harder, and "R22" has lost 22 classes from each side of the last harder one."""

    name: str
    classes: ClassSplit
    distance: float


@dataclass(frozen=True, kw_only=True)
class SwapSchedule:
    """How many steps of swaps lead to easier and harder splits from the start of a ladder, and how many of removals on.

    ``swaps`` is the number of swaps, and of classes removed from each side, from one step to the next; None takes 2 %
    of the smaller side, which is 2 for CUB and Cars. ``history``, towards easier splits ``easier_history``, is the
    number of slots of each side that were swapped last and are skipped.
    """

    swaps: int | None = None
    easier: int = 14
    harder: int = 24
    removals: int = 33
    history: int = 5
    easier_history: int = 30

    def __post_init__(self) -> None:
        if self.swaps is not None:
            check_count("SwapSchedule", "swaps", self.swaps)
        for name in ("easier", "harder", "removals", "history", "easier_history"):
            check_count("SwapSchedule", name, getattr(self, name), at_least=0)

    def swaps_for(self, start: ClassSplit) -> int:
        """The swaps per step from a start of this size."""
        return self.swaps or max(1, round(0.02 * min(len(start.train), len(start.test))))


def swap_steps(
    distances: ClassSplitDistances, start: ClassSplit, schedule: SwapSchedule, progress: Progress = no_progress
) -> list[Step]:
    """All steps, the easiest first: easier swaps in reverse, the start, harder swaps, removals.

    Differs:  removal starts from the last swap that was measured (the authors' script starts one swap later) and ends
              where the distance of class means falls by more than 2 %; sides keep at least 8 classes
    """
    swaps = schedule.swaps_for(start)
    total = 1 + schedule.easier + schedule.harder + schedule.removals
    done = 0

    def measure(name: str, classes: ClassSplit) -> Step:
        nonlocal done
        done += 1
        step = Step(name, classes, distances.between(classes, "class"))
        progress(done, total, f"step {name}: {step.distance:.4g}")
        return step

    def swap(steps: int, history: int, sign: int) -> list[Step]:
        path = swap_classes(distances.means, start, swaps=swaps, iterations=steps + 1, history=history, easier=sign < 0)
        return [measure(str(sign * index * swaps), split) for index, split in enumerate(path) if index or sign > 0]

    harder = swap(schedule.harder, schedule.history, 1)
    removed: list[Step] = []
    last = harder[-1]
    remaining = remove_classes(distances.means, last.classes, removals=swaps, iterations=schedule.removals)
    for index, split in enumerate(remaining, start=1):
        step = measure(f"R{index * swaps}", split)
        if step.distance < (1 - _TOLERANCE) * last.distance:
            break
        removed.append(step)
        last = step
    easier = swap(schedule.easier, schedule.easier_history, -1)
    return [*easier[::-1], *harder, *removed]


def assemble_ladder(
    source: LadderSource,
    steps: Sequence[Step],
    rungs: Sequence[Step],
    sample_distances: Mapping[str, float],
    settings: Record,
) -> Ladder:
    """The ladder of measured steps, of which some are rungs; `sample_distances` by step, and for every rung.

    The settings are kept in the ladder; their `seed` draws validation classes and few-shot episodes.
    """
    catalogue, seed = source.catalogue, settings["seed"]
    classes = item_ids_by_class(catalogue)
    return Ladder(
        data={"name": catalogue.name, "record": source.data, "fingerprint": catalogue.fingerprint},
        features={"dimensions": int(source.features.shape[1]), "made_by": source.made_by},
        settings=settings,
        classes=classes,
        steps=[
            StepRecord(name, len(sides.train), len(sides.test), distance, sample_distances.get(name))
            for name, sides, distance in steps
        ],
        rungs=[_rung(catalogue, step, sample_distances[step.name], seed) for step in rungs],
        support=draw_support({name: len(items) for name, items in classes.items()}, seed=seed),
    )


def _rung(catalogue: Catalogue, step: Step, sample_distance: float, seed: int) -> Rung:
    """Three quarters of the training classes, rounded down, train; the others validate."""
    order = shuffle_classes(catalogue, step.classes.train.tolist(), seed, "validation")
    count = 3 * len(order) // 4
    train, validation, test = (
        [catalogue.class_names[label] for label in sorted(side)]
        for side in (order[:count], order[count:], step.classes.test.tolist())
    )
    return Rung(step.name, step.distance, sample_distance, train=train, validation=validation, test=test)
