"""A catalogue: what there is to learn from and to retrieve, each item with its class, before anything is loaded."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, Protocol

import numpy as np
from PIL.Image import Image

from unseen.core.config import hash_of
from unseen.core.errors import DataError

Kind = Literal["image files", "images in memory", "features"]
SmallClasses = Literal["refuse", "drop", "keep"]

SIDES = ("train", "validation", "test")


class ItemReader(Protocol):
    """Where the content of items comes from."""

    kind: Kind

    def __len__(self) -> int: ...

    def content_hash(self) -> str:
        """A hash that changes when the content of any item changes."""
        ...

    def image(self, index: int) -> Image | None:
        """The item as a picture for people to look at (RGB), or None when there is none."""
        ...


@dataclass(frozen=True, eq=False, kw_only=True)
class Catalogue:
    """Items with their classes, and what is known of both.

    =============  ====================================================================================
    labels         class of each item, a position in `class_names` (int64)
    ids            name of each item: a path below the root, or "U+0416 DejaVuSans-Bold"
    class_groups   group of each class (script, product category) where there are groups
    fixed_split    "train", "validation" or "test" for each item where the data set says so
    is_query,      items that may be queries, that may be found; where the data set says so (In-Shop)
    is_gallery
    =============  ====================================================================================
    """

    name: str
    reader: ItemReader
    labels: np.ndarray
    class_names: tuple[str, ...]
    ids: tuple[str, ...]
    class_groups: tuple[str, ...] | None = None
    fixed_split: np.ndarray | None = None
    is_query: np.ndarray | None = None
    is_gallery: np.ndarray | None = None
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        assert len(self.labels) == len(self.ids) == len(self.reader), "labels, ids and reader tell of different items"
        for known in (self.fixed_split, self.is_query, self.is_gallery):
            assert known is None or len(known) == len(self.labels), "a column tells of other items than the labels"
        assert self.class_groups is None or len(self.class_groups) == len(self.class_names), "a class lacks its group"
        if len(self.labels) == 0:
            raise DataError(f"{self.name}: the catalogue is empty", hint="Use data with at least two classes.")
        assert self.labels.dtype == np.int64, "labels are not int64"
        assert self.labels.min() >= 0, "a label is negative"
        assert self.labels.max() < len(self.class_names), "a label names no class"

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

    def describe(self) -> str:
        """One line: how many items of how many classes, and of how many groups."""
        groups = f" in {len(set(self.class_groups))} groups" if self.class_groups else ""
        return f"{self.name}: {len(self):,} {self.reader.kind}, {len(self.class_names):,} classes{groups}"


def sort_class_names(names: set[str]) -> tuple[str, ...]:
    """Class names sorted; by value where all of them are whole numbers.

    >>> sort_class_names({"10", "9", "-1"}), sort_class_names({"10", "9", "b"})
    (('-1', '9', '10'), ('10', '9', 'b'))
    """
    try:
        return tuple(sorted(names, key=lambda name: (int(name), name)))
    except ValueError:
        return tuple(sorted(names))


def apply_small_class_policy(owner: str, classes: Sequence[str], policy: SmallClasses) -> tuple[list[int], list[str]]:
    """Which items stay, given the class of each and what is to happen to classes of a single item; with notes.

    Raises:  `DataError` if such a class is refused, or fewer than two classes stay
    """
    sizes = Counter(classes)
    small = [name for name, size in sizes.items() if size < 2]
    if small and policy == "refuse":
        raise DataError(
            f"{owner}: {quoted(small)} {'has' if len(small) == 1 else 'have'} a single item, "
            "so there is nothing alike to find",
            hint="Use small_classes=drop to leave such classes out or small_classes=keep to keep them.",
        )
    dropped = frozenset(small if policy == "drop" else ())
    kept = [position for position, name in enumerate(classes) if name not in dropped]
    left = len(sizes) - len(dropped)
    if left < 2:
        raise DataError(f"{owner}: at least 2 classes are needed", got=left)
    notes = [f"classes left out because they have a single item: {len(dropped):,}"] if dropped else []
    if small and policy == "keep":
        notes.append(f"classes with a single item: {len(small):,}")
    return kept, notes


def groups_of_classes(
    owner: str, class_names: Sequence[str], classes: Sequence[str], groups: Sequence[str]
) -> tuple[str, ...]:
    """The group of each class from the group of each item; a class with two groups is refused."""
    group_of: dict[str, str] = {}
    for name, group in zip(classes, groups, strict=True):
        if group_of.setdefault(name, group) != group:
            raise DataError(
                f"{owner}: class '{name}' has items of two groups, '{group_of[name]}' and '{group}'",
                hint="Use one group for all items of a class.",
            )
    return tuple(group_of[name] for name in class_names)


def quoted(names: Sequence[str], kind: str = "class", plural: str = "classes", shown: int = 3) -> str:
    """Some names for a sentence.

    >>> quoted(["wren"]), quoted(["a", "b", "c", "d", "e"])
    ("class 'wren'", "classes 'a', 'b', 'c' and 2 more")
    """
    words = ", ".join(f"'{name}'" for name in names[:shown])
    more = f" and {len(names) - shown:,} more" if len(names) > shown else ""
    return f"{kind if len(names) == 1 else plural} {words}{more}"
