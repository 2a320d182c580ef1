"""From a catalogue and its features to a ladder."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray

from unseen.core.checks import check_count
from unseen.core.config import Record
from unseen.core.errors import DataError
from unseen.data.catalogue import Catalogue
from unseen.data.splits import Split, shuffle_classes
from unseen.shifts.class_swaps import FEWEST_CLASSES, Sides
from unseen.shifts.episodes import draw_support
from unseen.shifts.incremental_distance import Distances
from unseen.shifts.ladder import Ladder, Measured, Rung, item_ids_by_class
from unseen.shifts.rung_selection import RUNGS, choose_by_distance, choose_by_name, choose_evenly
from unseen.shifts.steps import Step, Walk, walk_ladder

SAMPLES = 9
"""Steps beside the rungs at which samples are measured: enough to see the curve."""


def build_ladder(
    catalogue: Catalogue,
    features: NDArray[np.floating],
    start: Split,
    *,
    walk: Walk | None = None,
    rungs: int | Sequence[float] | Sequence[str] = RUNGS,
    samples: int | None = SAMPLES,
    seed: int = 0,
    data: Record | None = None,
    made_by: Record | None = None,
    progress: Callable[[int, str], None] = lambda done, words: None,
) -> Ladder:
    """The ladder that is walked from a split of a catalogue, measured in features of its items.

    ========  =========================================================================================
    features  one row for each item of the catalogue
    start     the split where the walk begins; its validation classes count as training classes
    rungs     how many, evenly spaced in distance; or target distances; or names of steps ("-20", "R22")
    samples   steps at which the distance of samples is measured beside the rungs, evenly spaced over the walk; None
              measures it at every step. It decides nothing and takes nearly all the time
    seed      of the validation classes and of the episodes
    data      the record that loads the catalogue, kept in the ladder
    made_by   what gave the features, kept in the ladder
    ========  =========================================================================================

    Raises:  DataError for features that are not the catalogue's or a side of fewer than 8 classes
    """
    check_count("build_ladder", "seed", seed, at_least=0)
    if samples is not None:
        check_count("build_ladder", "samples", samples, at_least=0)
    check_rows(catalogue, features)
    walk = walk or Walk()
    labels = catalogue.labels
    sides = Sides(np.unique(labels[np.concatenate([start.train, start.validation])]), np.unique(labels[start.test]))
    if min(map(len, sides)) < FEWEST_CLASSES:
        raise DataError(
            f"a ladder needs at least {FEWEST_CLASSES} classes on each side",
            got=" and ".join(str(len(side)) for side in sides),
            hint="Use another start or more classes.",
        )
    distances = Distances(features, labels)
    steps = walk_ladder(distances, sides, walk, progress)
    chosen = _chosen(steps, rungs)
    names = {step.name for step in (*_evenly(steps, samples), *chosen)}
    # In the order of the walk, as the distances are quickest from one step to the next.
    measured = [step for step in steps if step.name in names]
    of_samples: dict[str, float] = {}
    for step in measured:
        of_samples[step.name] = distances.between(step.sides, "sample")
        progress(len(steps) + len(of_samples), f"step {step.name}: {of_samples[step.name]:.4g} between samples")
    return ladder_of(
        catalogue,
        steps,
        chosen,
        of_samples,
        dimensions=features.shape[1],
        settings={
            "start": {"name": start.name, "fingerprint": start.fingerprint},
            "walk": asdict(walk) | {"swaps": walk.swaps_for(sides)},
            "rungs": rungs if isinstance(rungs, int) else list(rungs),
            "samples": samples,
        },
        seed=seed,
        data=data,
        made_by=made_by,
    )


def ladder_of(
    catalogue: Catalogue,
    steps: Sequence[Step],
    chosen: Sequence[Step],
    of_samples: Mapping[str, float],
    *,
    dimensions: int,
    settings: Record,
    seed: int,
    data: Record | None,
    made_by: Record | None,
) -> Ladder:
    """The ladder of steps that are measured, those of them that are rungs, and distances of samples by step."""
    classes = item_ids_by_class(catalogue)
    return Ladder(
        data={"name": catalogue.name, "record": data, "fingerprint": catalogue.fingerprint},
        features={"dimensions": int(dimensions), "made_by": made_by},
        settings=settings | {"seed": seed},
        classes=classes,
        steps=[_measured(step, of_samples.get(step.name)) for step in steps],
        rungs=[_rung(catalogue, step, of_samples[step.name], seed) for step in chosen],
        support=draw_support({name: len(items) for name, items in classes.items()}, seed=seed),
    )


def check_rows(catalogue: Catalogue, features: NDArray[np.floating]) -> None:
    """Refuse features that are not one row for each item of the catalogue."""
    if features.ndim != 2 or len(features) != len(catalogue):
        raise DataError(f"{catalogue.describe()}: features must have a row for each item", got=features.shape)


def _chosen(steps: Sequence[Step], rungs: int | Sequence[float] | Sequence[str]) -> list[Step]:
    if isinstance(rungs, int):
        return choose_evenly(steps, rungs)
    if all(isinstance(each, str) for each in rungs):
        return choose_by_name(steps, [str(each) for each in rungs])
    return choose_by_distance(steps, [float(each) for each in rungs])


def _evenly(steps: Sequence[Step], count: int | None) -> list[Step]:
    """So many steps, the first and the last among them where there are two; all where there are no more."""
    if count is None or count >= len(steps):
        return list(steps)
    return [steps[place] for place in np.unique(np.linspace(0, len(steps) - 1, count).round().astype(int))]


def _measured(step: Step, of_samples: float | None) -> Measured:
    return Measured(step.name, len(step.sides.train), len(step.sides.test), step.distance, of_samples)


def _rung(catalogue: Catalogue, step: Step, of_samples: float, seed: int) -> Rung:
    """Three quarters of the training classes, rounded down, train; the others validate (SPEC 5.4)."""
    order = shuffle_classes(catalogue, step.sides.train.tolist(), seed, "validation")
    count = 3 * len(order) // 4
    train, validation, test = (
        [catalogue.class_names[label] for label in sorted(side)]
        for side in (order[:count], order[count:], step.sides.test.tolist())
    )
    return Rung(step.name, step.distance, of_samples, train=train, validation=validation, test=test)
