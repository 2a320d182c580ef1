"""Class splits: which classes are for training, for validation, and for testing on unseen classes."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unseen.core.checks import check_between, check_count
from unseen.core.config import build, hash_of
from unseen.core.errors import ConfigError, DataError
from unseen.core.randomness import derive
from unseen.core.registry import nearest, split
from unseen.data.catalogue import SIDES, Catalogue, quoted

_OTHER_SPLITS = "Try the split fraction or classes."


@dataclass(frozen=True, eq=False, kw_only=True)
class Split:
    """Items of a catalogue on three class-disjoint sides; all arrays are sorted positions in the catalogue (int64)."""

    name: str
    train: np.ndarray
    validation: np.ndarray  # may be empty
    test: np.ndarray
    queries: np.ndarray  # test items used as queries, and test items that are searched:
    gallery: np.ndarray  # all of them unless the data set says otherwise
    classes: dict[str, int]  # number of classes on each side
    fingerprint: str  # hash of the ids on each side
    facts: dict[str, Any] = field(default_factory=dict)  # further numbers, such as the distance between the sides

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
    catalogue: Catalogue, name: str, *, train: Iterable[int], validation: Iterable[int], test: Iterable[int]
) -> Split:
    """Split a catalogue by the labels on each side; classes on no side are left out.

    Raises:  `DataError` for a class on two sides and for a side of fewer than two classes (validation may have none)
    """
    classes = {"train": set(train), "validation": set(validation), "test": set(test)}
    counts = _check_sides(catalogue, name, classes)
    items: dict[str, Any] = {
        side: np.flatnonzero(np.isin(catalogue.labels, sorted(labels))) for side, labels in classes.items()
    }
    items["queries"] = _marked(catalogue, name, items["test"], catalogue.is_query, "query")
    items["gallery"] = _marked(catalogue, name, items["test"], catalogue.is_gallery, "gallery")
    fingerprint = hash_of({part: [catalogue.ids[item] for item in positions] for part, positions in items.items()})
    return Split(name=name, classes=counts, fingerprint=fingerprint, **items)


def split_catalogue(catalogue: Catalogue, record: str | Mapping[str, object]) -> Split:
    """Split a catalogue as a record describes: `"fraction:train=0.5"` or `{"name": "given"}`."""
    result: Split = build(split, record)(catalogue)
    return result


def shuffle_classes(catalogue: Catalogue, labels: Iterable[int], seed: int, purpose: str) -> list[int]:
    """Return labels in a random order that depends only on seed, purpose and the class names.

    The order is the same on every platform, and adding a class does not change the order of the others.
    """
    return sorted(labels, key=lambda label: derive(seed, f"{purpose}/{catalogue.class_names[label]}"))


class _Holdout:
    """A split that holds out a share of its training classes for validation."""

    def __init__(self, *, validation: float = 0.15, seed: int = 0) -> None:
        owner = type(self).__name__
        check_between(owner, "validation", validation, 0, 0.9)
        check_count(owner, "seed", seed, at_least=0)
        self.validation: float | list[str | int] = validation
        self.seed = seed

    def _split(self, catalogue: Catalogue, name: str, train: Collection[int], test: Collection[int]) -> Split:
        """Move a share of the training classes, at least 2, to validation; none if the share is 0."""
        # Checked before the draw: otherwise a class on both sides would be noticed only with some seeds.
        _check_sides(catalogue, name, {"train": set(train), "validation": set(), "test": set(test)})
        assert not isinstance(self.validation, list), "classes that are listed by name are not drawn"
        count = max(2, round(self.validation * len(train))) if self.validation else 0
        if count and len(train) - count < 2:
            raise DataError(
                f"split '{name}': {len(train)} training classes are too few to hold out {count} of them for validation",
                hint="Set validation=0 or add training classes.",
            )
        order = shuffle_classes(catalogue, train, self.seed, "validation")
        return split_by_classes(catalogue, name, train=order[count:], validation=order[:count], test=test)


class _ShareOfClasses(_Holdout):
    def __init__(self, *, train: float = 0.5, validation: float = 0.15, seed: int = 0) -> None:
        check_between(type(self).__name__, "train", train, 0, 1)
        super().__init__(validation=validation, seed=seed)
        self.train = train


@split("fraction")
class ByFraction(_ShareOfClasses):
    """A random share of the classes for training and validation, the rest for testing.

    ===========  ====================================================================================
    train        share of all classes that is for training or validation (0 to 1)
    validation   share *of these training classes* held out for validation, at least 2; 0 for none
    seed         of both draws
    ===========  ====================================================================================
    """

    def __call__(self, catalogue: Catalogue) -> Split:
        """Split a catalogue."""
        name = f"fraction {self.train:g} seed {self.seed}"
        order = shuffle_classes(catalogue, range(len(catalogue.class_names)), self.seed, "split")
        count = round(self.train * len(order))
        return self._split(catalogue, name, order[:count], order[count:])


@split("first")
class FirstClasses(_ShareOfClasses):
    """The first classes of the catalogue for training, the others for testing, as papers do on CUB and Cars.

    Settings as in `ByFraction`; the number of training classes is rounded down.
    """

    def __call__(self, catalogue: Catalogue) -> Split:
        """Split a catalogue."""
        name = "first" if self.train == 0.5 else f"first {self.train:g}"
        total = len(catalogue.class_names)
        count = int(self.train * total + 1e-9)  # 0.29 * 100 is 28.999999999999996
        return self._split(catalogue, name, range(count), range(count, total))


@split("classes")
class ByClasses(_Holdout):
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
        super().__init__(validation=0 if isinstance(validation, list) else validation, seed=seed)
        self.train, self.test, self.validation = train, test, validation

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
        return self._split(catalogue, name, train, test)


@split("groups")
class ByGroups(_Holdout):
    """Whole groups of classes (scripts, categories) for testing, others for training.

    ===========  ====================================================================================
    test         groups whose classes are for testing
    train        groups whose classes are for training; all others if None
    validation   share of the training classes held out at random, at least 2; 0 for none
    ===========  ====================================================================================
    """

    def __init__(
        self, *, test: list[str | int], train: list[str | int] | None = None, validation: float = 0.15, seed: int = 0
    ) -> None:
        super().__init__(validation=validation, seed=seed)
        self.test, self.train = test, train

    def __call__(self, catalogue: Catalogue) -> Split:
        """Split a catalogue."""
        name = f"groups {'+'.join(map(str, self.test))}"
        if catalogue.class_groups is None:
            raise DataError(f"split '{name}': {catalogue.name} has no groups", hint=_OTHER_SPLITS)
        groups = tuple(dict.fromkeys(catalogue.class_groups))
        tested = _positions(name, "group", self.test, groups)
        trained = set(range(len(groups))) - tested
        if self.train is not None:
            trained = _positions(name, "group", self.train, groups)
        group_of = list(enumerate(map(groups.index, catalogue.class_groups)))
        train = [label for label, group in group_of if group in trained]
        test = [label for label, group in group_of if group in tested]
        return self._split(catalogue, name, train, test)


@split("given")
class Predefined(_Holdout):
    """The split that the data set itself defines; validation classes are drawn only if it defines none.

    `validation` and `seed` as in `ByFraction`.
    """

    def __call__(self, catalogue: Catalogue) -> Split:
        """Split a catalogue."""
        name = "given"
        if catalogue.fixed_split is None:
            raise DataError(f"split '{name}': {catalogue.name} defines no split", hint=_OTHER_SPLITS)
        sides = {side: set(catalogue.labels[catalogue.fixed_split == side].tolist()) for side in SIDES}
        if sides["validation"]:
            return split_by_classes(catalogue, name, **sides)
        return self._split(catalogue, name, sides["train"], sides["test"])


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


def _positions(split_name: str, kind: str, wanted: Sequence[str | int], known: Sequence[str]) -> set[int]:
    position_of = {name: position for position, name in enumerate(known)}
    for name in map(str, wanted):
        if name not in position_of:
            raise DataError(
                f"split '{split_name}': no {kind} '{name}'{nearest(name, list(known))} ({len(known):,} known)"
            )
    return {position_of[str(name)] for name in wanted}
