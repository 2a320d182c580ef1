"""From a catalogue and its features to a ladder."""

from collections.abc import Callable, Sequence
from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray

from unseen.core.checks import check_count
from unseen.core.config import Record
from unseen.core.errors import DataError
from unseen.data.catalogue import Catalogue
from unseen.data.splits import Split, shuffled
from unseen.shifts.choosing import RUNGS, choose_by_distance, choose_by_name, choose_evenly
from unseen.shifts.episodes import draw_support
from unseen.shifts.ladder import Ladder, Measured, Rung, items_of
from unseen.shifts.swapping import FEWEST_CLASSES, Sides
from unseen.shifts.tracking import Distances
from unseen.shifts.walking import Step, Walk, walk_ladder


def build_ladder(
    catalogue: Catalogue,
    features: NDArray[np.floating],
    start: Split,
    *,
    walk: Walk | None = None,
    rungs: int | Sequence[float] | Sequence[str] = RUNGS,
    seed: int = 0,
    data: Record | None = None,
    made_by: Record | None = None,
    tell: Callable[[int, str], None] = lambda done, words: None,
) -> Ladder:
    """The ladder that is walked from a split of a catalogue, measured in features of its items.

    ========  =========================================================================================
    features  one row for each item of the catalogue
    start     the split where the walk begins; its validation classes count as training classes
    rungs     how many, evenly spaced in distance; or target distances; or names of steps ("-20", "R22")
    seed      of the validation classes and of the episodes
    data      the record that loads the catalogue, kept in the ladder
    made_by   what gave the features, kept in the ladder
    ========  =========================================================================================

    Raises:  DataError for features that are not the catalogue's or a side of fewer than 8 classes
    """
    check_count("build_ladder", "seed", seed, at_least=0)
    if features.ndim != 2 or len(features) != len(catalogue):
        raise DataError(f"{catalogue.describe()}: features must have a row for each item", got=features.shape)
    walk = walk or Walk()
    labels = catalogue.labels
    sides = Sides(np.unique(labels[np.concatenate([start.train, start.validation])]), np.unique(labels[start.test]))
    if min(map(len, sides)) < FEWEST_CLASSES:
        raise DataError(
            f"a ladder needs at least {FEWEST_CLASSES} classes on each side",
            got=" and ".join(str(len(side)) for side in sides),
            use="another start or more classes",
        )
    steps = walk_ladder(Distances(features, labels), sides, walk, tell)
    classes = items_of(catalogue)
    return Ladder(
        data={"name": catalogue.name, "record": data, "fingerprint": catalogue.fingerprint},
        features={"dimensions": int(features.shape[1]), "made_by": made_by},
        settings={
            "start": {"name": start.name, "fingerprint": start.fingerprint},
            "walk": asdict(walk) | {"swaps": walk.swaps_for(sides)},
            "rungs": rungs if isinstance(rungs, int) else list(rungs),
            "seed": seed,
        },
        classes=classes,
        steps=[Measured(each.name, len(each.sides.train), len(each.sides.test), **_distances(each)) for each in steps],
        rungs=[_rung(catalogue, step, seed) for step in _chosen(steps, rungs)],
        support=draw_support({name: len(items) for name, items in classes.items()}, seed=seed),
    )


def _chosen(steps: Sequence[Step], rungs: int | Sequence[float] | Sequence[str]) -> list[Step]:
    if isinstance(rungs, int):
        return choose_evenly(steps, rungs)
    if all(isinstance(each, str) for each in rungs):
        return choose_by_name(steps, [str(each) for each in rungs])
    return choose_by_distance(steps, [float(each) for each in rungs])


def _rung(catalogue: Catalogue, step: Step, seed: int) -> Rung:
    """Three quarters of the training classes, rounded down, train; the others validate (SPEC 5.4)."""
    order = shuffled(catalogue, step.sides.train.tolist(), seed, "validation")
    count = 3 * len(order) // 4
    train, validation, test = (
        [catalogue.class_names[label] for label in sorted(side)]
        for side in (order[:count], order[count:], step.sides.test.tolist())
    )
    return Rung(step.name, **_distances(step), train=train, validation=validation, test=test)


def _distances(step: Step) -> dict[str, float]:
    return {"class_distance": step.distances["class"], "sample_distance": step.distances["sample"]}
