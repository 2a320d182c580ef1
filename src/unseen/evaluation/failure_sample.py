"""The failures of a run that a report shows: items with thumbnails, and lists of failures that refer to them."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unseen.core.errors import DataError


class CheckedArrays:
    """Named arrays whose shapes depend on each other."""

    hint: ClassVar[str]

    def _check(self, name: str, fits: bool) -> None:
        if not fits:
            message = f"{type(self).__name__}: {name} does not fit the other arrays"
            raise DataError(message, got=getattr(self, name).shape, hint=self.hint)


def are_thumbnails(thumbnails: np.ndarray, lead: tuple[int, ...]) -> bool:
    """Whether an array holds grey or RGB images (uint8) behind the leading axes."""
    size = thumbnails.shape[len(lead) :]
    is_image = len(size) == 2 or (len(size) == 3 and size[2] == 3)
    return is_image and thumbnails.shape[: len(lead)] == lead and min(size) > 0 and thumbnails.dtype == np.uint8


@dataclass(frozen=True, eq=False, kw_only=True)
class FailureSample(CheckedArrays):
    """I items, each stored once; W worst queries, P confused pairs of classes and D near-duplicates refer to them.

    Raises: DataError if the shapes of the arrays disagree
    """

    hint = "Pass I items, item numbers below I, and uint8 thumbnails."

    names: np.ndarray  # (I,)
    classes: np.ndarray  # (I,) names
    labels: np.ndarray  # (I,) numbers
    worst_items: np.ndarray  # (W, 2 + K) query, nearest positive, then the K nearest items
    worst_similarity: np.ndarray  # (W, 1 + K) of the query to the positive and to the K items
    worst_rank: np.ndarray  # (W,) rank of the nearest positive
    confused_items: np.ndarray  # (P, 2) a query and its nearest item, one example of the pair
    confused_queries: np.ndarray  # (P, 2) number of confused queries, and of queries of the class
    duplicate_items: np.ndarray  # (D, 2) two items of different classes
    duplicate_similarity: np.ndarray  # (D,)
    totals: np.ndarray  # (4,) numbers of failed queries, of queries, of confused pairs of classes, of near-duplicates
    duplicate_threshold: np.ndarray  # () the similarity from which two items count as near-duplicates
    thumbnails: np.ndarray | None = None  # (I, h, w) or (I, h, w, 3)

    def __post_init__(self) -> None:
        items, worst = self.labels.shape, self.worst_items.shape
        self._check("labels", len(items) == 1)
        self._check("names", self.names.shape == items)
        self._check("classes", self.classes.shape == items)
        self._check("worst_items", len(worst) == 2 and worst[1] >= 2)
        self._check("worst_similarity", self.worst_similarity.shape == (worst[0], worst[1] - 1))
        self._check("worst_rank", self.worst_rank.shape == worst[:1])
        self._check("confused_queries", self.confused_queries.shape == (len(self.confused_items), 2))
        self._check("duplicate_similarity", self.duplicate_similarity.shape == (len(self.duplicate_items),))
        for name, width in (("worst_items", worst[1]), ("confused_items", 2), ("duplicate_items", 2)):
            numbers = getattr(self, name)
            fits = numbers.ndim == 2 and numbers.shape[1] == width and numbers.dtype.kind == "i"
            self._check(name, fits and bool(((numbers >= 0) & (numbers < items[0])).all()))
        self._check("totals", self.totals.shape == (4,))
        self._check("duplicate_threshold", self.duplicate_threshold.shape == ())
        if self.thumbnails is not None:
            self._check("thumbnails", are_thumbnails(self.thumbnails, items))
