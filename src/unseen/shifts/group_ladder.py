"""A natural ladder: the classes of one group test, those of the other groups train; near groups first."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from unseen.core.checks import check_count
from unseen.core.config import Record
from unseen.core.errors import ConfigError, DataError
from unseen.core.registry import nearest
from unseen.data.catalogue import Catalogue, quoted
from unseen.data.splits import shuffle_classes
from unseen.shifts.build import check_rows, ladder_of
from unseen.shifts.class_swaps import FEWEST_CLASSES, Sides
from unseen.shifts.incremental_distance import Distances
from unseen.shifts.ladder import GROUPS, Ladder
from unseen.shifts.rung_selection import spaced
from unseen.shifts.steps import Step

MIXED = "mixed"
"""The step whose test classes are drawn over all groups: no shift beyond new classes."""


def build_group_ladder(
    catalogue: Catalogue,
    features: NDArray[np.floating],
    *,
    rungs: int | Sequence[str] | None = None,
    seed: int = 0,
    data: Record | None = None,
    made_by: Record | None = None,
    progress: Callable[[int, str], None] = lambda done, words: None,
) -> Ladder:
    """The ladder whose steps are the groups of a catalogue's classes (scripts, categories), measured in features.

    ========  =========================================================================================
    features  one row for each item of the catalogue
    rungs     None takes "mixed" and every group of at least 8 classes; a number takes so many of them, evenly spaced in
              distance, the nearest, the furthest and "mixed" among them; names take these steps and no others
    seed      of the draws of classes and of the episodes
    data      the record that loads the catalogue, kept in the ladder
    made_by   what gave the features, kept in the ladder
    ========  =========================================================================================

    All steps have equally many test classes, those of the smallest group, and equally many training classes: a larger
    gallery lowers recall@1 and a smaller sample raises the distance, whatever the shift. For the latter reason the
    distance of "mixed" is not 0: it is what as many classes without a shift give, and the others are read against it.
    Groups differ also in how hard their classes are to tell apart; methods without training show that.

    Raises:  DataError for data without groups, with too few or too small ones; ConfigError for an unknown one
    """
    check_count("build_group_ladder", "seed", seed, at_least=0)
    check_rows(catalogue, features)
    names = None if rungs is None or isinstance(rungs, int) else list(rungs)
    divisions = divide_by_groups(catalogue, names, seed=seed)
    if isinstance(rungs, int) and not 3 <= rungs <= len(divisions):
        raise ConfigError(
            f"a ladder of {len(divisions)} steps, {', '.join(divisions)}, has from 3 to {len(divisions)} rungs",
            got=rungs,
        )
    distances = Distances(features, catalogue.labels)
    steps: list[Step] = []
    of_samples: dict[str, float] = {}
    for name, sides in divisions.items():
        steps.append(Step(name, sides, distances.between(sides, "class")))
        of_samples[name] = distances.between(sides, "sample")
        progress(len(steps), f"{name}: {steps[-1].distance:.4g}, {of_samples[name]:.4g} between samples")
    steps.sort(key=lambda step: step.distance)
    chosen = spaced(steps, rungs, fixed=[MIXED]) if isinstance(rungs, int) else steps
    return ladder_of(
        catalogue,
        steps,
        chosen,
        of_samples,
        dimensions=features.shape[1],
        settings={"by": GROUPS, "rungs": rungs if names is None else names},
        seed=seed,
        data=data,
        made_by=made_by,
    )


def divide_by_groups(catalogue: Catalogue, names: Sequence[str] | None = None, *, seed: int = 0) -> dict[str, Sides]:
    """Equally many training and test classes for "mixed" and for each group of at least 8 classes; or for these names.

    A class is drawn in the same order for every step, so that steps share as many training classes as they can.

    Raises:  DataError for data without groups, with too few or too small ones; ConfigError for an unknown one
    """
    members = _members(catalogue)
    tested = _tested(catalogue, members, names)
    everything = range(len(catalogue.class_names))
    own = {name: everything if name == MIXED else members[name] for name in tested}
    sizes = [len(members[name]) for name in tested if name != MIXED]
    test_count = min(sizes)
    train_count = len(everything) - max(sizes)
    if train_count < FEWEST_CLASSES:
        raise DataError(
            f"{catalogue.describe()}: the classes outside the largest group are too few to train on",
            got=train_count,
            hint=f"Use groups that leave at least {FEWEST_CLASSES} classes: --steps names them.",
        )
    divisions = {}
    for name, classes in own.items():
        test = shuffle_classes(catalogue, classes, seed, "test")[:test_count]
        closed = set(test if name == MIXED else classes)
        rest = [label for label in everything if label not in closed]
        train = shuffle_classes(catalogue, rest, seed, "train")[:train_count]
        divisions[name] = Sides(*(np.array(sorted(side), np.int64) for side in (train, test)))
    return divisions


def _members(catalogue: Catalogue) -> dict[str, list[int]]:
    if catalogue.class_groups is None:
        raise DataError(
            f"{catalogue.describe()}: its classes have no groups", hint="Use --by swaps, or data with groups."
        )
    members: dict[str, list[int]] = {}
    for label, group in enumerate(catalogue.class_groups):
        members.setdefault(group, []).append(label)
    if MIXED in members:
        raise DataError(f"{catalogue.describe()}: a group is called '{MIXED}', as is the step over all groups")
    return members


def _tested(catalogue: Catalogue, members: Mapping[str, list[int]], names: Sequence[str] | None) -> list[str]:
    """The steps that there are to be; at least one of them a group."""
    large = [group for group, classes in members.items() if len(classes) >= FEWEST_CLASSES]
    if names is None:
        if len(large) < 2:
            raise DataError(
                f"{catalogue.describe()}: a ladder by groups needs 2 groups of at least {FEWEST_CLASSES} classes",
                got=len(large),
                hint="Use --by swaps, or data with larger groups.",
            )
        return [MIXED, *large]
    known = [MIXED, *members]
    for name in names:
        if name not in known:
            raise ConfigError(f"no group '{name}'{nearest(name, known)} (there are: {', '.join(known)})")
    if len(set(names)) < len(names) or not set(names) - {MIXED}:
        raise ConfigError(
            "steps must be different groups, one at least",
            got=list(names),
            hint=quoted(list(members), "group", "groups"),
        )
    small = [name for name in names if name != MIXED and name not in large]
    if small:
        raise DataError(
            f"group '{small[0]}' is too small for a test side: at least {FEWEST_CLASSES} classes are needed",
            got=len(members[small[0]]),
            hint="Use larger groups.",
        )
    return list(names)
