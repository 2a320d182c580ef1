"""A catalogue: what there is to learn from and to retrieve, each item with its class, before anything is loaded."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, Protocol

import numpy as np
from PIL.Image import Image

from unseen.core.config import hash_of
from unseen.core.errors import DataError

Kind = Literal["image files", "images in memory", "features"]


class Source(Protocol):
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
    source: Source
    labels: np.ndarray
    class_names: tuple[str, ...]
    ids: tuple[str, ...]
    class_groups: tuple[str, ...] | None = None
    fixed_split: np.ndarray | None = None
    is_query: np.ndarray | None = None
    is_gallery: np.ndarray | None = None
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        assert len(self.labels) == len(self.ids) == len(self.source), "labels, ids and source tell of different items"
        if len(self.labels) == 0:
            raise DataError(f"{self.name}: the catalogue is empty", use="data with at least two classes")

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits that change when an item, its class or its content changes."""
        return hash_of(
            {
                "ids": list(self.ids),
                "classes": [self.class_names[label] for label in self.labels],
                "content": self.source.content_hash(),
            }
        )
