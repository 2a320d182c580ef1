"""A ladder by groups: the classes of one group test, those of the other groups train; near groups first."""

from collections.abc import Mapping, Sequence

import numpy as np

from unseen.core.checks import check_count
from unseen.core.errors import ConfigError, DataError
from unseen.core.progress import Progress, no_progress
from unseen.core.registry import nearest
from unseen.data.catalogue import Catalogue, quoted
from unseen.data.splits import shuffle_classes
from unseen.shifts.class_swaps import MIN_CLASSES, ClassSplit
from unseen.shifts.incremental_distance import ClassSplitDistances
from unseen.shifts.ladder import GROUPS, Ladder, LadderSource
from unseen.shifts.rung_selection import evenly_spaced
from unseen.shifts.steps import Step, assemble_ladder

MIXED = "mixed"
"""The step whose test classes are drawn from all groups: no shift beyond new classes."""


def build_group_ladder(
    source: LadderSource, *, rungs: int | Sequence[str] | None = None, seed: int = 0, progress: Progress = no_progress
) -> Ladder:
    """The ladder whose steps are the groups of a catalogue's classes (scripts, categories), measured in features.

    Without ``rungs`` they are "mixed" and every group of at least 8 classes; a number takes so many of them, evenly
    spaced in distance, with the nearest, the furthest and "mixed"; names take these steps and no others.

    All steps have equally many test classes, those of the smallest group, and equally many training classes: a larger
    gallery lowers recall@1 and a smaller sample raises the distance, whatever the shift. Hence the distance of "mixed"
    is not 0: it is that of as many classes without a shift, and the others are read against it. Groups also differ in
    how hard their classes are to tell apart; methods without training show that.

    Raises:  DataError for data without groups, with too few or too small ones; ConfigError for an unknown one
    """
    check_count("build_group_ladder", "seed", seed, at_least=0)
    names = None if rungs is None or isinstance(rungs, int) else list(rungs)
    splits = split_by_groups(source.catalogue, names, seed=seed)
    if isinstance(rungs, int) and not 3 <= rungs <= len(splits):
        raise ConfigError(
            f"a ladder of {len(splits)} steps, {', '.join(splits)}, has from 3 to {len(splits)} rungs", got=rungs
        )
    distances = ClassSplitDistances(source.features, source.catalogue.labels)
    steps: list[Step] = []
    sample_distances: dict[str, float] = {}
    for name, classes in splits.items():
        steps.append(Step(name, classes, distances.between(classes, "class")))
        sample_distances[name] = distances.between(classes, "sample")
        message = f"{name}: {steps[-1].distance:.4g}, {sample_distances[name]:.4g} between samples"
        progress(len(steps), len(splits), message)
    steps.sort(key=lambda step: step.distance)
    chosen = evenly_spaced(steps, rungs, fixed=[MIXED]) if isinstance(rungs, int) else steps
    facts = {"by": GROUPS, "rungs": rungs if names is None else names, "seed": seed}
    return assemble_ladder(source, steps, chosen, sample_distances, facts)


def split_by_groups(
    catalogue: Catalogue, names: Sequence[str] | None = None, *, seed: int = 0
) -> dict[str, ClassSplit]:
    """A class split for "mixed" and for each group of at least 8 classes, or for these names; all of the same size.

    Classes are drawn in the same order for every step, so that steps share as many training classes as they can.

    Raises:  DataError for data without groups, with too few or too small ones; ConfigError for an unknown one
    """
    members = _classes_by_group(catalogue)
    steps = _step_names(catalogue, members, names)
    all_classes = range(len(catalogue.class_names))
    sizes = [len(members[name]) for name in steps if name != MIXED]
    test_count = min(sizes)
    train_count = len(all_classes) - max(sizes)
    if train_count < MIN_CLASSES:
        raise DataError(
            f"{catalogue.describe()}: the classes outside the largest group are too few to train on",
            got=train_count,
            hint=f"Choose groups with --steps so that at least {MIN_CLASSES} other classes remain.",
        )
    splits = {}
    for name in steps:
        classes = all_classes if name == MIXED else members[name]
        test = shuffle_classes(catalogue, classes, seed, "test")[:test_count]
        excluded = set(test if name == MIXED else classes)
        others = [label for label in all_classes if label not in excluded]
        train = shuffle_classes(catalogue, others, seed, "train")[:train_count]
        splits[name] = ClassSplit(*(np.array(sorted(side), np.int64) for side in (train, test)))
    return splits


def _classes_by_group(catalogue: Catalogue) -> dict[str, list[int]]:
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


def _step_names(catalogue: Catalogue, members: Mapping[str, list[int]], names: Sequence[str] | None) -> list[str]:
    """The names of the steps, checked; at least one of them is a group."""
    large = [group for group, classes in members.items() if len(classes) >= MIN_CLASSES]
    if names is None:
        if len(large) < 2:
            raise DataError(
                f"{catalogue.describe()}: a ladder by groups needs 2 groups of at least {MIN_CLASSES} classes",
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
            "steps must be different groups, at least one",
            got=list(names),
            hint=f"There are {quoted(list(members), 'group', 'groups')}.",
        )
    small = [name for name in names if name != MIXED and name not in large]
    if small:
        raise DataError(
            f"group '{small[0]}' is too small for a test side: at least {MIN_CLASSES} classes are needed",
            got=len(members[small[0]]),
            hint="Use larger groups.",
        )
    return list(names)
