"""A catalogue: the items of a data set with their classes, before any content is loaded."""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol

import numpy as np
from PIL.Image import Image

from unseen.core import registry
from unseen.core.config import build, hash_of
from unseen.core.errors import DataError

Kind = Literal["image files", "images in memory", "features"]
SmallClasses = Literal["refuse", "drop", "keep"]

SIDES = ("train", "validation", "test")

_log = logging.getLogger("unseen")


class ItemReader(Protocol):
    """Reads the content of a catalogue's items."""

    kind: Kind

    def __len__(self) -> int: ...

    def content_hash(self) -> str:
        """Return a hash that changes when the content of any item changes."""
        ...

    def image(self, index: int) -> Image | None:
        """Return the item as an RGB image to look at, or None when there is none."""
        ...


@dataclass(frozen=True, eq=False, kw_only=True)
class Catalogue:
    """Items, their class labels and optional metadata."""

    name: str
    reader: ItemReader
    labels: np.ndarray  # class of each item, an index into `class_names` (int64)
    class_names: tuple[str, ...]
    ids: tuple[str, ...]  # unique name of each item: a path below the root, or "U+0416 DejaVuSans-Bold"
    class_groups: tuple[str, ...] | None = None  # script or product category, if the data set has groups
    fixed_split: np.ndarray | None = None  # "train", "validation" or "test", if the data set defines a split
    is_query: np.ndarray | None = None  # which items are queries, and which are in the gallery,
    is_gallery: np.ndarray | None = None  # if the data set says so (In-Shop)
    notes: tuple[str, ...] = ()  # remarks for the user, logged when the catalogue is loaded

    def __post_init__(self) -> None:
        assert len(self.labels) == len(self.ids) == len(self.reader), "labels, ids and reader differ in length"
        for column in (self.fixed_split, self.is_query, self.is_gallery):
            assert column is None or len(column) == len(self.labels), "a column and the labels differ in length"
        assert self.class_groups is None or len(self.class_groups) == len(self.class_names), "a class has no group"
        if len(self.labels) == 0:
            raise DataError(f"{self.name}: the catalogue is empty", hint="At least two classes are needed.")
        assert self.labels.dtype == np.int64, "labels are not int64"
        assert self.labels.min() >= 0, "a label is negative"
        assert self.labels.max() < len(self.class_names), "a label is not an index into class_names"

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits that change when an item, its class or its content changes."""
        return hash_of(
            {
                "ids": list(self.ids),
                "classes": [self.class_names[label] for label in self.labels],
                "content": self.reader.content_hash(),
            }
        )

    @property
    def features(self) -> np.ndarray:
        """The cached features (items, dimensions); `DataError` for a catalogue of images."""
        features = getattr(self.reader, "features", None)
        if not isinstance(features, np.ndarray):
            raise DataError(f"{self.name} holds no cached features", got=self.reader.kind)
        return features

    def describe(self) -> str:
        """Return one line with the number of items, classes and groups."""
        groups = f" in {len(set(self.class_groups))} groups" if self.class_groups else ""
        return f"{self.name}: {len(self):,} {self.reader.kind}, {len(self.class_names):,} classes{groups}"


def load_catalogue(record: str | Mapping[str, object]) -> Catalogue:
    """Load the data set that a record describes: `"folder=my/birds"` or `{"name": "folder", "path": "my/birds"}`.

    The catalogue's notes (counts that differ from the published ones, classes left out) are logged as warnings.
    """
    catalogue: Catalogue = build(registry.data, record)
    for note in catalogue.notes:
        _log.warning("note on %s: %s", catalogue.name, note)
    return catalogue


def sort_class_names(names: set[str]) -> tuple[str, ...]:
    """Sort class names, numerically if all of them are integers.

    >>> sort_class_names({"10", "9", "-1"}), sort_class_names({"10", "9", "b"})
    (('-1', '9', '10'), ('10', '9', 'b'))
    """
    try:
        return tuple(sorted(names, key=lambda name: (int(name), name)))
    except ValueError:
        return tuple(sorted(names))


def encode_labels(
    owner: str, classes: Sequence[str], groups: Sequence[str] | None = None
) -> tuple[tuple[str, ...], np.ndarray, tuple[str, ...] | None]:
    """Return sorted class names, the label of each item and the group of each class, from class and group of each item.

    >>> encode_labels("birds", ["wren", "owl", "wren"], ["songbird", "raptor", "songbird"])
    (('owl', 'wren'), array([1, 0, 1]), ('raptor', 'songbird'))
    """
    class_names = sort_class_names(set(classes))
    label_of = {name: label for label, name in enumerate(class_names)}
    labels = np.array([label_of[name] for name in classes], np.int64)
    if groups is None:
        return class_names, labels, None
    group_of: dict[str, str] = {}
    for name, group in zip(classes, groups, strict=True):
        if group_of.setdefault(name, group) != group:
            raise DataError(
                f"{owner}: class '{name}' has items of two groups, '{group_of[name]}' and '{group}'",
                hint="All items of a class must have the same group.",
            )
    return class_names, labels, tuple(group_of[name] for name in class_names)


def apply_small_class_policy(owner: str, classes: Sequence[str], policy: SmallClasses) -> tuple[list[int], list[str]]:
    """Return the positions of the items to keep, given the class name of each, and notes for the user.

    The policy decides about classes with a single item, which have no positive pair.

    Raises:  `DataError` if the policy refuses such a class, or fewer than two classes are left
    """
    sizes = Counter(classes)
    small = [name for name, size in sizes.items() if size < 2]
    if small and policy == "refuse":
        raise DataError(
            f"{owner}: {quoted(small)} {'has' if len(small) == 1 else 'have'} a single item, so no other item matches",
            hint="Set small_classes=drop to leave such classes out, or small_classes=keep to keep them.",
        )
    dropped = frozenset(small if policy == "drop" else ())
    num_classes = len(sizes) - len(dropped)
    if num_classes < 2:
        raise DataError(f"{owner}: at least 2 classes are needed", got=num_classes)
    notes = [f"classes left out because they have a single item: {len(dropped):,}"] if dropped else []
    if small and policy == "keep":
        notes.append(f"classes with a single item: {len(small):,}")
    return [position for position, name in enumerate(classes) if name not in dropped], notes


def quoted(names: Sequence[str], kind: str = "class", plural: str = "classes", limit: int = 3) -> str:
    """Return the first names in quotes, for a message.

    >>> quoted(["wren"]), quoted(["a", "b", "c", "d", "e"])
    ("class 'wren'", "classes 'a', 'b', 'c' and 2 more")
    """
    words = ", ".join(f"'{name}'" for name in names[:limit])
    more = f" and {len(names) - limit:,} more" if len(names) > limit else ""
    return f"{kind if len(names) == 1 else plural} {words}{more}"
