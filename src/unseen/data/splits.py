"""Class splits: which classes are for training, for validation, and for testing on unseen classes."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unseen.core.checks import check_between, check_count
from unseen.core.config import hash_of
from unseen.core.errors import ConfigError, DataError
from unseen.core.randomness import derive
from unseen.core.registry import nearest, split
from unseen.data.catalogue import SIDES, Catalogue, quoted


@dataclass(frozen=True, eq=False, kw_only=True)
class Split:
    """Items of a catalogue on three class-disjoint sides; all arrays are sorted positions in the catalogue (int64).

    ===========  =========================================================================
    validation   may be empty
    queries      test items used as queries; all of them unless the data set says otherwise
    gallery      test items that are searched; likewise
    classes      number of classes on each side
    fingerprint  hash of the ids on each side
    facts        further numbers about the split, such as the distance between its sides
    ===========  =========================================================================
    """

    name: str
    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray
    queries: np.ndarray
    gallery: np.ndarray
    classes: dict[str, int]
    fingerprint: str
    facts: dict[str, Any] = field(default_factory=dict)

    def counts(self) -> dict[str, dict[str, int]]:
        """Return the number of images and classes on each side."""
        return {side: {"images": len(getattr(self, side)), "classes": self.classes[side]} for side in SIDES}

    def describe(self) -> str:
        """Return one line with the counts of all sides."""
        sides = ", ".join(
            f"{side} {count['images']:,} of {count['classes']:,} classes" for side, count in self.counts().items()
        )
        searched = f"; {len(self.queries):,} queries in a gallery of {len(self.gallery):,}"
        return f"{self.name}: {sides}{searched if len(self.queries) + len(self.gallery) < 2 * len(self.test) else ''}"


def split_by_classes(
    catalogue: Catalogue,
    name: str,
    *,
    train: Collection[int],
    validation: Collection[int],
    test: Collection[int],
) -> Split:
    """Split a catalogue by the labels on each side; classes on no side are left out.

    Raises:  `DataError` for a class on two sides and for a side of fewer than two classes (validation may have none)
    """
    classes = {"train": set(train), "validation": set(validation), "test": set(test)}
    counts = _check_sides(catalogue, name, classes)
    items = {side: np.flatnonzero(np.isin(catalogue.labels, sorted(labels))) for side, labels in classes.items()}
    items["queries"] = _marked(catalogue, name, items["test"], catalogue.is_query, "query")
    items["gallery"] = _marked(catalogue, name, items["test"], catalogue.is_gallery, "gallery")
    return Split(
        name=name,
        classes=counts,
        fingerprint=hash_of({part: [catalogue.ids[item] for item in positions] for part, positions in items.items()}),
        train=items["train"],
        validation=items["validation"],
        test=items["test"],
        queries=items["queries"],
        gallery=items["gallery"],
    )


def shuffle_classes(catalogue: Catalogue, labels: Iterable[int], seed: int, purpose: str) -> list[int]:
    """Return labels in a random order that depends only on seed, purpose and the class names.

    The order is the same on every platform, and adding a class does not change the order of the others.
    """
    return sorted(labels, key=lambda label: derive(seed, f"{purpose}/{catalogue.class_names[label]}"))


def hold_out_validation(
    catalogue: Catalogue, name: str, labels: Collection[int], share: float, seed: int
) -> tuple[list[int], list[int]]:
    """Divide training classes into training and validation classes, at least 2 of the latter unless the share is 0."""
    if share == 0:
        return sorted(labels), []
    count = max(2, round(share * len(labels)))
    if len(labels) - count < 2:
        raise DataError(
            f"split '{name}': {len(labels)} training classes are too few to hold out {count} of them for validation",
            hint="Set validation=0 or add training classes.",
        )
    order = shuffle_classes(catalogue, labels, seed, "validation")
    return sorted(order[count:]), sorted(order[:count])


@split("fraction")
class ByFraction:
    """A random share of the classes for training and validation, the rest for testing.

    ===========  ====================================================================================
    train        share of all classes that is for training or validation (0 to 1)
    validation   share *of these training classes* held out for validation, at least 2; 0 for none
    seed         of both draws
    ===========  ====================================================================================
    """

    def __init__(self, *, train: float = 0.5, validation: float = 0.15, seed: int = 0) -> None:
        check_between("ByFraction", "train", train, 0, 1)
        _check_validation("ByFraction", validation, seed)
        self.train, self.validation, self.seed = train, validation, seed

    def __call__(self, catalogue: Catalogue) -> Split:
        """Split a catalogue."""
        name = f"fraction {self.train:g} seed {self.seed}"
        order = shuffle_classes(catalogue, range(len(catalogue.class_names)), self.seed, "split")
        count = round(self.train * len(order))
        return _with_validation(catalogue, name, order[:count], order[count:], self.validation, self.seed)


@split("first")
class FirstClasses:
    """The first classes of the catalogue for training, the others for testing, as papers do on CUB and Cars.

    ===========  ====================================================================================
    train        share of all classes, rounded down
    validation   share of the training classes held out at random, at least 2; 0 for none
    ===========  ====================================================================================
    """

    def __init__(self, *, train: float = 0.5, validation: float = 0.15, seed: int = 0) -> None:
        check_between("FirstClasses", "train", train, 0, 1)
        _check_validation("FirstClasses", validation, seed)
        self.train, self.validation, self.seed = train, validation, seed

    def __call__(self, catalogue: Catalogue) -> Split:
        """Split a catalogue."""
        name = "first" if self.train == 0.5 else f"first {self.train:g}"
        total = len(catalogue.class_names)
        count = int(self.train * total + 1e-9)  # 0.29 * 100 is 28.999999999999996
        return _with_validation(catalogue, name, range(count), range(count, total), self.validation, self.seed)


@split("classes")
class ByClasses:
    """Classes by their names; if only one of train and test is set, the other is the rest.

    ===========  ====================================================================================
    train, test  class names; if both are set, classes in neither list are left out
    validation   class names, or the share of the training classes held out at random; 0 for none
    ===========  ====================================================================================
    """

    def __init__(
        self,
        *,
        train: list[str | int] | None = None,
        test: list[str | int] | None = None,
        validation: float | list[str | int] = 0.15,
        seed: int = 0,
    ) -> None:
        if train is None and test is None:
            raise ConfigError("ByClasses: train or test must list class names", hint="Try classes:test=[name,name].")
        _check_validation("ByClasses", 0 if isinstance(validation, list) else validation, seed)
        self.train, self.test, self.validation, self.seed = train, test, validation, seed

    def __call__(self, catalogue: Catalogue) -> Split:
        """Split a catalogue."""
        name = "classes"
        listed = {
            side: _positions(name, "class", names, catalogue.class_names)
            for side, names in (("train", self.train), ("test", self.test), ("validation", self.validation))
            if isinstance(names, list)
        }
        rest = set(range(len(catalogue.class_names))) - set().union(*listed.values())
        train, test = listed.get("train", rest), listed.get("test", rest)
        if isinstance(self.validation, list):
            return split_by_classes(catalogue, name, train=train, validation=listed["validation"], test=test)
        return _with_validation(catalogue, name, train, test, self.validation, self.seed)


@split("groups")
class ByGroups:
    """Whole groups of classes (scripts, categories) for testing, others for training.

    ===========  ====================================================================================
    test         groups whose classes are for testing
    train        groups whose classes are for training; all others if None
    validation   share of the training classes held out at random, at least 2; 0 for none
    ===========  ====================================================================================
    """

    def __init__(
        self,
        *,
        test: list[str | int],
        train: list[str | int] | None = None,
        validation: float = 0.15,
        seed: int = 0,
    ) -> None:
        _check_validation("ByGroups", validation, seed)
        self.test, self.train, self.validation, self.seed = test, train, validation, seed

    def __call__(self, catalogue: Catalogue) -> Split:
        """Split a catalogue."""
        name = f"groups {'+'.join(map(str, self.test))}"
        if catalogue.class_groups is None:
            raise DataError(
                f"split '{name}': {catalogue.name} has no groups", hint="Try the split fraction or classes."
            )
        groups = tuple(dict.fromkeys(catalogue.class_groups))
        tested = _positions(name, "group", self.test, groups)
        trained = set(range(len(groups))) - tested
        if self.train is not None:
            trained = _positions(name, "group", self.train, groups)
        group_of = [groups.index(group) for group in catalogue.class_groups]
        train = [label for label, group in enumerate(group_of) if group in trained]
        test = [label for label, group in enumerate(group_of) if group in tested]
        return _with_validation(catalogue, name, train, test, self.validation, self.seed)


@split("given")
class Predefined:
    """The split that the data set itself defines; validation classes are drawn only if it defines none.

    ===========  ====================================================================================
    validation   share of the training classes held out at random, at least 2; 0 for none; not used
                 if the data set has a validation side of its own
    ===========  ====================================================================================
    """

    def __init__(self, *, validation: float = 0.15, seed: int = 0) -> None:
        _check_validation("Predefined", validation, seed)
        self.validation, self.seed = validation, seed

    def __call__(self, catalogue: Catalogue) -> Split:
        """Split a catalogue."""
        name = "given"
        if catalogue.fixed_split is None:
            raise DataError(
                f"split '{name}': {catalogue.name} defines no split", hint="Try the split fraction or classes."
            )
        sides = {side: set(catalogue.labels[catalogue.fixed_split == side].tolist()) for side in SIDES}
        if sides["validation"]:
            return split_by_classes(catalogue, name, **sides)
        return _with_validation(catalogue, name, sides["train"], sides["test"], self.validation, self.seed)


def _with_validation(
    catalogue: Catalogue, name: str, train: Collection[int], test: Collection[int], share: float, seed: int
) -> Split:
    # Checked before the draw: otherwise a class on both sides would be noticed only with some seeds.
    _check_sides(catalogue, name, {"train": set(train), "validation": set(), "test": set(test)})
    train, validation = hold_out_validation(catalogue, name, train, share, seed)
    return split_by_classes(catalogue, name, train=train, validation=validation, test=test)


def _check_sides(catalogue: Catalogue, name: str, classes: dict[str, set[int]]) -> dict[str, int]:
    """Return the number of classes with items on each side, after checking that they can be a split."""
    for one, other in (("train", "test"), ("train", "validation"), ("validation", "test")):
        both = sorted(classes[one] & classes[other])
        if both:
            names = quoted([catalogue.class_names[label] for label in both])
            raise DataError(
                f"split '{name}': {names} {'is' if len(both) == 1 else 'are'} on the {one} and on the {other} side",
                hint="The sides of a split must have no class in common.",
            )
    present = set(catalogue.labels.tolist())
    counts = {side: len(labels & present) for side, labels in classes.items()}
    for side, count in counts.items():
        if count < 2 and not (side == "validation" and count == 0):
            raise DataError(
                f"split '{name}': the {side} side needs at least 2 classes and has {count} ({catalogue.describe()})",
                hint="Set validation=0 or a larger share."
                if side == "validation"
                else "Change the shares or add classes.",
            )
    return counts


def _marked(catalogue: Catalogue, name: str, test: np.ndarray, marks: np.ndarray | None, role: str) -> np.ndarray:
    marked = test if marks is None else test[marks[test]]
    if len(marked) == 0:
        raise DataError(f"split '{name}': no test item of {catalogue.name} is marked as {role}")
    return marked


def _check_validation(owner: str, validation: float, seed: int) -> None:
    check_between(owner, "validation", validation, 0, 0.9)
    check_count(owner, "seed", seed, at_least=0)


def _positions(split_name: str, kind: str, wanted: Sequence[str | int], known: Sequence[str]) -> set[int]:
    position_of = {name: position for position, name in enumerate(known)}
    for name in map(str, wanted):
        if name not in position_of:
            raise DataError(
                f"split '{split_name}': no {kind} '{name}'{nearest(name, list(known))} ({len(known):,} known)"
            )
    return {position_of[str(name)] for name in wanted}
