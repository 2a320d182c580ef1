"""Building a ladder from a split: swap classes towards easier and harder splits, then choose rungs."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from unseen.core.checks import check_count
from unseen.core.errors import DataError
from unseen.core.progress import Progress, no_progress
from unseen.data.splits import Split
from unseen.shifts.class_swaps import MIN_CLASSES, ClassSplit
from unseen.shifts.incremental_distance import ClassSplitDistances
from unseen.shifts.ladder import Ladder, LadderSource
from unseen.shifts.rung_selection import RUNGS, choose_by_distance, choose_by_name, choose_evenly
from unseen.shifts.steps import Step, SwapSchedule, assemble_ladder, swap_steps

SAMPLES = 9
"""Steps beside the rungs at which the distance of samples is measured: enough to see the curve."""


@dataclass(frozen=True, kw_only=True)
class LadderSettings:
    """How a ladder is built.

    ``rungs`` is how many, evenly spaced in distance; or target distances; or names of steps ("-20", "R22"). ``samples``
    is the number of steps beside the rungs, evenly spaced, at which the distance of samples is measured, None for all:
    it is for information only and takes nearly all the time. ``seed`` draws validation classes and few-shot episodes.
    """

    schedule: SwapSchedule = field(default_factory=SwapSchedule)
    rungs: int | Sequence[float] | Sequence[str] = RUNGS
    samples: int | None = SAMPLES
    seed: int = 0

    def __post_init__(self) -> None:
        check_count("LadderSettings", "seed", self.seed, at_least=0)
        if self.samples is not None:
            check_count("LadderSettings", "samples", self.samples, at_least=0)


PUBLISHED_LADDERS = {
    "cub200": LadderSettings(
        schedule=SwapSchedule(swaps=2), rungs=["-20", "-10", "0", "6", "10", "30", "R22", "R48", "R66"]
    ),
    "cars196": LadderSettings(
        schedule=SwapSchedule(swaps=2, easier=0), rungs=["0", "6", "16", "20", "30", "R18", "R42", "R66"]
    ),
    "sop": LadderSettings(
        schedule=SwapSchedule(swaps=1000, easier=0, harder=19, removals=6),
        rungs=["0", "1000", "2000", "3000", "4000", "5000", "R2000", "R6000"],
    ),
}
"""How Milbich et al. (arXiv:2107.09562) built their ladders."""


def build_ladder(
    source: LadderSource, start: Split, settings: LadderSettings | None = None, *, progress: Progress = no_progress
) -> Ladder:
    """The ladder around a split: easier and harder splits of the same classes, measured in features of the items.

    The validation classes of `start` count as training classes.

    Raises:  DataError for a side of fewer than 8 classes; ConfigError for rungs that the ladder does not have
    """
    settings = settings or LadderSettings()
    labels = source.catalogue.labels
    first = ClassSplit(
        np.unique(labels[np.concatenate([start.train, start.validation])]), np.unique(labels[start.test])
    )
    if min(map(len, first)) < MIN_CLASSES:
        raise DataError(
            f"a ladder needs at least {MIN_CLASSES} classes on each side",
            got=" and ".join(str(len(side)) for side in first),
            hint="Start from another split, or use data with more classes.",
        )
    schedule, total = settings.schedule, _expected_measurements(settings)
    distances = ClassSplitDistances(source.features, labels)
    steps = swap_steps(distances, first, schedule, lambda done, _, message: progress(done, total, message))
    rungs = _choose(steps, settings.rungs)
    names = {step.name for step in (*_evenly(steps, settings.samples), *rungs)}
    # In the order of the steps, as a distance is quickest right after that of a similar split.
    to_measure = [step for step in steps if step.name in names]
    sample_distances: dict[str, float] = {}
    for step in to_measure:
        sample_distances[step.name] = distances.between(step.classes, "sample")
        done, message = len(steps) + len(sample_distances), f"step {step.name}: {sample_distances[step.name]:.4g}"
        progress(done, len(steps) + len(to_measure), f"{message} between samples")
    facts = {
        "start": {"name": start.name, "fingerprint": start.fingerprint},
        "walk": asdict(schedule) | {"swaps": schedule.swaps_for(first)},
        "rungs": settings.rungs if isinstance(settings.rungs, int) else list(settings.rungs),
        "samples": settings.samples,
        "seed": settings.seed,
    }
    return assemble_ladder(source, steps, rungs, sample_distances, facts)


def _expected_measurements(settings: LadderSettings) -> int:
    """An estimate for the progress: removal may end early, and a step may be both a rung and one of the others."""
    schedule = settings.schedule
    steps = 1 + schedule.easier + schedule.harder + schedule.removals
    rungs = settings.rungs if isinstance(settings.rungs, int) else len(settings.rungs)
    return steps + min(steps, rungs + (steps if settings.samples is None else settings.samples))


def _choose(steps: Sequence[Step], rungs: int | Sequence[float] | Sequence[str]) -> list[Step]:
    if isinstance(rungs, int):
        return choose_evenly(steps, rungs)
    if all(isinstance(rung, str) for rung in rungs):
        return choose_by_name(steps, [str(rung) for rung in rungs])
    return choose_by_distance(steps, [float(rung) for rung in rungs])


def _evenly(steps: Sequence[Step], count: int | None) -> list[Step]:
    """`count` evenly spaced steps, from the first to the last; all of them if there are no more."""
    if count is None or count >= len(steps):
        return list(steps)
    return [steps[index] for index in np.unique(np.linspace(0, len(steps) - 1, count).round().astype(int))]
