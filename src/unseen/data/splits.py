"""Class splits: which classes train, which validate, and which are the unseen ones that test."""

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
    validation   may be empty, when a run wants none
    queries      test items that search; all of them unless the data set says otherwise
    gallery      test items that can be found; likewise
    fingerprint  hash of the ids on each side
    facts        what else is known of the split, such as the distance of its sides
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
        """Images and classes on each side."""
        return {side: {"images": len(getattr(self, side)), "classes": self.classes[side]} for side in SIDES}

    def describe(self) -> str:
        """One line with the counts of all sides."""
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
    """The split that puts these classes on these sides; classes on no side are left out.

    Raises:  `DataError` for a class on two sides and for a side of fewer than two classes (validation may have none)
    """
    classes = {"train": set(train), "validation": set(validation), "test": set(test)}
    for one, other in (("train", "test"), ("train", "validation"), ("validation", "test")):
        both = sorted(classes[one] & classes[other])
        if both:
            names = quoted([catalogue.class_names[label] for label in both])
            stand = "stands" if len(both) == 1 else "stand"
            raise DataError(
                f"split '{name}': {names} {stand} on the {one} and on the {other} side",
                hint="Use sides without a common class: the test asks for classes never seen.",
            )
    items = {side: np.flatnonzero(np.isin(catalogue.labels, sorted(chosen))) for side, chosen in classes.items()}
    counts = {side: len(np.unique(catalogue.labels[items[side]])) for side in SIDES}
    for side in SIDES:
        if counts[side] < 2 and not (side == "validation" and counts[side] == 0):
            raise DataError(
                f"split '{name}': the {side} side needs at least 2 classes and has {counts[side]}"
                f" ({catalogue.describe()})",
                hint="Use validation=0 or a larger share."
                if side == "validation"
                else "Use other shares or more classes.",
            )
    queries = _marked(catalogue, name, items["test"], catalogue.is_query, "query")
    gallery = _marked(catalogue, name, items["test"], catalogue.is_gallery, "gallery")
    parts = {**items, "queries": queries, "gallery": gallery}
    return Split(
        name=name,
        train=items["train"].astype(np.int64),
        validation=items["validation"].astype(np.int64),
        test=items["test"].astype(np.int64),
        queries=queries.astype(np.int64),
        gallery=gallery.astype(np.int64),
        classes=counts,
        fingerprint=hash_of({part: [catalogue.ids[item] for item in items] for part, items in parts.items()}),
    )


def shuffled(catalogue: Catalogue, classes: Iterable[int], seed: int, purpose: str) -> list[int]:
    """Classes in an order that follows from seed, purpose and their names alone.

    So the order is the same on every platform, and a class that is added moves no other pair of classes.
    """
    return sorted(classes, key=lambda label: derive(seed, f"{purpose}/{catalogue.class_names[label]}"))


def draw_validation(
    catalogue: Catalogue, name: str, classes: Collection[int], share: float, seed: int
) -> tuple[list[int], list[int]]:
    """Training classes parted into those that train and a share, at least two, that validate; share 0 gives none."""
    if share == 0:
        return sorted(classes), []
    count = max(2, round(share * len(classes)))
    if len(classes) - count < 2:
        raise DataError(
            f"split '{name}': {len(classes)} training classes are too few to set {count} of them apart for validation",
            hint="Use validation=0 or more training classes.",
        )
    order = shuffled(catalogue, classes, seed, "validation")
    return sorted(order[count:]), sorted(order[:count])


@split("fraction")
class ByFraction:
    """A share of the classes, drawn at random, trains and validates; the rest tests.

    ===========  ====================================================================================
    train        share of all classes that trains or validates (0 to 1)
    validation   share *of these training classes* set apart for validation, at least 2; 0 for none
    seed         of both draws
    ===========  ====================================================================================
    """

    def __init__(self, *, train: float = 0.5, validation: float = 0.15, seed: int = 0) -> None:
        check_between("ByFraction", "train", train, 0, 1)
        _check_draw("ByFraction", validation, seed)
        self.train = train
        self.validation = validation
        self.seed = seed

    def __call__(self, catalogue: Catalogue) -> Split:
        """The split of this catalogue."""
        name = f"fraction {self.train:g} seed {self.seed}"
        order = shuffled(catalogue, range(len(catalogue.class_names)), self.seed, "split")
        count = round(self.train * len(order))
        _check_sides(catalogue, name, count, len(order) - count)
        train, validation = draw_validation(catalogue, name, order[:count], self.validation, self.seed)
        return split_by_classes(catalogue, name, train=train, validation=validation, test=order[count:])


@split("first")
class FirstClasses:
    """The first classes in the catalogue's order train, the rest test, as papers do on CUB and Cars.

    ===========  ====================================================================================
    train        share of all classes, rounded down to whole classes
    validation   share of the training classes set apart, drawn at random, at least 2; 0 for none
    ===========  ====================================================================================
    """

    def __init__(self, *, train: float = 0.5, validation: float = 0.15, seed: int = 0) -> None:
        check_between("FirstClasses", "train", train, 0, 1)
        _check_draw("FirstClasses", validation, seed)
        self.train = train
        self.validation = validation
        self.seed = seed

    def __call__(self, catalogue: Catalogue) -> Split:
        """The split of this catalogue."""
        name = "first" if self.train == 0.5 else f"first {self.train:g}"
        total = len(catalogue.class_names)
        count = int(self.train * total + 1e-9)  # 0.29 * 100 is 28.999999999999996
        _check_sides(catalogue, name, count, total - count)
        train, validation = draw_validation(catalogue, name, range(count), self.validation, self.seed)
        return split_by_classes(catalogue, name, train=train, validation=validation, test=range(count, total))


@split("classes")
class ByClasses:
    """Classes by their names; where only one of train and test is given, the other is the rest.

    ===========  ====================================================================================
    train, test  class names; classes on neither list are left out when both are given
    validation   class names, or the share of the training classes set apart at random; 0 for none
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
            raise ConfigError("ByClasses: train or test must list class names", hint="Use classes:test=[name,name].")
        _check_draw("ByClasses", 0 if isinstance(validation, list) else validation, seed)
        self.train = train
        self.test = test
        self.validation = validation
        self.seed = seed

    def __call__(self, catalogue: Catalogue) -> Split:
        """The split of this catalogue."""
        name = "classes"
        listed = {
            side: _chosen(name, "class", names, catalogue.class_names)
            for side, names in (("train", self.train), ("test", self.test), ("validation", self.validation))
            if isinstance(names, list)
        }
        rest = set(range(len(catalogue.class_names))) - set().union(*listed.values())
        train = listed.get("train", rest)
        test = listed.get("test", rest)
        if isinstance(self.validation, list):
            validation = listed["validation"]
        else:
            # Found before the draw: otherwise a class on both sides might show only with some seeds.
            split_by_classes(catalogue, name, train=train, validation=(), test=test)
            train, validation = map(set, draw_validation(catalogue, name, train, self.validation, self.seed))
        return split_by_classes(catalogue, name, train=train, validation=validation, test=test)


@split("groups")
class ByGroups:
    """Whole groups of classes (scripts, categories) test; others train.

    ===========  ====================================================================================
    test         groups whose classes test
    train        groups whose classes train; all others if None
    validation   share of the training classes set apart, drawn at random, at least 2; 0 for none
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
        _check_draw("ByGroups", validation, seed)
        self.test = test
        self.train = train
        self.validation = validation
        self.seed = seed

    def __call__(self, catalogue: Catalogue) -> Split:
        """The split of this catalogue."""
        name = f"groups {'+'.join(map(str, self.test))}"
        if catalogue.class_groups is None:
            raise DataError(
                f"split '{name}': {catalogue.name} has no groups", hint="Use the split fraction or classes."
            )
        groups = tuple(dict.fromkeys(catalogue.class_groups))
        tested = _chosen(name, "group", self.test, groups)
        trained = set(range(len(groups))) - tested
        if self.train is not None:
            trained = _chosen(name, "group", self.train, groups)
        members = {group: position for position, group in enumerate(groups)}
        group_of = [members[group] for group in catalogue.class_groups]
        train = {label for label, group in enumerate(group_of) if group in trained}
        test = {label for label, group in enumerate(group_of) if group in tested}
        split_by_classes(catalogue, name, train=train, validation=(), test=test)
        chosen, validation = draw_validation(catalogue, name, train, self.validation, self.seed)
        return split_by_classes(catalogue, name, train=chosen, validation=validation, test=test)


@split("given")
class Predefined:
    """The split that the data set itself states; validation is drawn only where it states none.

    ===========  ====================================================================================
    validation   share of the training classes set apart, drawn at random, at least 2; 0 for none;
                 not used when the data set has a validation side of its own
    ===========  ====================================================================================
    """

    def __init__(self, *, validation: float = 0.15, seed: int = 0) -> None:
        _check_draw("Predefined", validation, seed)
        self.validation = validation
        self.seed = seed

    def __call__(self, catalogue: Catalogue) -> Split:
        """The split of this catalogue."""
        name = "given"
        if catalogue.fixed_split is None:
            raise DataError(
                f"split '{name}': {catalogue.name} states no split", hint="Use the split fraction or classes."
            )
        sides = {side: set(catalogue.labels[catalogue.fixed_split == side].tolist()) for side in SIDES}
        stated = split_by_classes(
            catalogue, name, train=sides["train"], validation=sides["validation"], test=sides["test"]
        )
        if sides["validation"]:
            return stated
        train, validation = draw_validation(catalogue, name, sides["train"], self.validation, self.seed)
        return split_by_classes(catalogue, name, train=train, validation=validation, test=sides["test"])


def _marked(catalogue: Catalogue, name: str, test: np.ndarray, marks: np.ndarray | None, role: str) -> np.ndarray:
    if marks is None:
        return test
    marked = test[marks[test]]
    if len(marked) == 0:
        raise DataError(f"split '{name}': no test item of {catalogue.name} is marked as {role}")
    return marked


def _check_draw(owner: str, validation: float, seed: int) -> None:
    check_between(owner, "validation", validation, 0, 0.9)
    check_count(owner, "seed", seed, at_least=0)


def _check_sides(catalogue: Catalogue, name: str, train: int, test: int) -> None:
    for side, count in (("train", train), ("test", test)):
        if count < 2:
            raise DataError(
                f"split '{name}': the {side} side needs at least 2 classes and gets {count} of "
                f"{len(catalogue.class_names)}",
                hint="Use another share or more classes.",
            )


def _chosen(name: str, kind: str, wanted: Sequence[str | int], known: Sequence[str]) -> set[int]:
    positions = {text: position for position, text in enumerate(known)}
    for text in map(str, wanted):
        if text not in positions:
            raise DataError(f"split '{name}': no {kind} '{text}'{nearest(text, list(known))} ({len(known):,} known)")
    return {positions[str(text)] for text in wanted}
