"""What a report shows of a run's failures: items with thumbnails, and which of them make a failure together."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unseen.core.errors import DataError

Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False, kw_only=True)
class FailureSample:
    """I items, each kept once; W worst queries, P confused pairs of classes, D near-duplicates name them by number.

    ====================  ===================================================================================
    worst_items           query, nearest positive, then the K nearest items
    worst_similarity      of the query to the positive and to the K items
    worst_rank            place of the nearest positive
    confused_items        a query and its nearest item, one example of the pair
    confused_queries      queries taken for the other class, and queries of the class
    duplicate_items       two items of different classes
    totals                queries that fail, queries, confused pairs of classes, near-duplicates in all
    duplicate_threshold   the similarity from which two items count as near-duplicates (no axis)
    ====================  ===================================================================================

    Raises: DataError where the arrays disagree
    """

    names: np.ndarray  # (I,)
    classes: np.ndarray  # (I,) names
    labels: np.ndarray  # (I,) numbers
    worst_items: np.ndarray  # (W, 2 + K)
    worst_similarity: np.ndarray  # (W, 1 + K)
    worst_rank: np.ndarray  # (W,)
    confused_items: np.ndarray  # (P, 2)
    confused_queries: np.ndarray  # (P, 2)
    duplicate_items: np.ndarray  # (D, 2)
    duplicate_similarity: np.ndarray  # (D,)
    totals: np.ndarray  # (4,)
    duplicate_threshold: np.ndarray  # ()
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
            is_fit = numbers.ndim == 2 and numbers.shape[1] == width and numbers.dtype.kind == "i"
            self._check(name, is_fit and bool(((numbers >= 0) & (numbers < items[0])).all()))
        self._check("totals", self.totals.shape == (4,))
        self._check("duplicate_threshold", self.duplicate_threshold.shape == ())
        if self.thumbnails is not None:
            size = self.thumbnails.shape[1:]
            is_fit = len(size) == 2 or (len(size) == 3 and size[2] == 3)
            is_fit = is_fit and self.thumbnails.shape[:1] == items and min(size) > 0
            self._check("thumbnails", is_fit and self.thumbnails.dtype == np.uint8)

    def _check(self, name: str, is_fit: bool) -> None:
        if not is_fit:
            raise DataError(
                f"FailureSample: {name} does not fit the other arrays",
                got=getattr(self, name).shape,
                hint="Use I items, numbers below I, and uint8 thumbnails.",
            )
