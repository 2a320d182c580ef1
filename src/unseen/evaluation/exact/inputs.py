"""What people hand in, read into one checked table: directions, class numbers, queries and gallery."""

import numbers
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from unseen.core.errors import BatchError
from unseen.evaluation.exact.directions import Directions, read_directions

Embeddings: TypeAlias = Tensor | NDArray[np.floating]
Labels: TypeAlias = Tensor | NDArray[Any] | Sequence[int] | Sequence[str]
Rows: TypeAlias = Tensor | NDArray[Any] | Sequence[int] | Sequence[bool] | range
Gallery: TypeAlias = tuple[Embeddings, Labels] | tuple[Embeddings, Labels, Labels]


class Table(NamedTuple):
    """Embeddings with their classes, and which rows ask and which rows may answer; not those of the asking row's group.

    Without ``groups`` every row that may answer can answer every other.
    """

    directions: Directions
    classes: NDArray[np.int64]
    queries: NDArray[np.int64]
    gallery: NDArray[np.int64]
    groups: NDArray[np.int64] | None = None


def read_table(
    embeddings: Embeddings,
    labels: Labels,
    queries: Rows | None = None,
    gallery: Rows | Gallery | None = None,
    *,
    groups: Labels | None = None,
    memory: float = 500,
) -> Table:
    """The checked table; without queries (gallery) every row is one.

    Queries and gallery are row numbers or a mask over the rows. A gallery may also be a pair (embeddings, labels) of
    its own, with groups a triple (embeddings, labels, groups): its rows are then put behind those of the queries.
    ``memory`` (in MB) bounds what is kept beyond the embeddings.

    Raises: BatchError for shapes, labels or row numbers that do not fit
    """
    if isinstance(gallery, tuple) and len(gallery) in (2, 3) and np.ndim(gallery[0]) == 2:
        return _with_gallery(embeddings, labels, queries, gallery, groups, memory)
    directions = read_directions(embeddings, memory=memory)
    count = _count_of(directions)
    every = np.arange(count)
    return Table(
        directions,
        _numbers_of(labels, count, "label"),
        every if queries is None else row_numbers(queries, count, "queries"),
        every if gallery is None else row_numbers(gallery, count, "gallery"),
        None if groups is None else _numbers_of(groups, count, "group"),
    )


def _with_gallery(
    embeddings: Embeddings,
    labels: Labels,
    queries: Rows | None,
    gallery: Gallery,
    groups: Labels | None,
    memory: float,
) -> Table:
    if (groups is None) != (len(gallery) == 2):
        raise BatchError(
            "groups must be given for both sides or for none",
            got=f"groups {'missing' if groups is None else 'given'}, a gallery of {len(gallery)} parts",
            hint="Use groups=... with gallery=(embeddings, labels, groups).",
        )
    directions = read_directions(embeddings, gallery[0], memory=memory)
    _count_of(directions)
    # What the second table has is what the first has not.
    behind = len(gallery[0])
    count = len(directions) - behind
    classes = class_numbers(_as_list(labels, count, "label") + _as_list(gallery[1], behind, "label"))
    numbers = None
    if groups is not None and len(gallery) == 3:
        numbers = class_numbers(_as_list(groups, count, "group") + _as_list(gallery[2], behind, "group"))
    asked = np.arange(count) if queries is None else row_numbers(queries, count, "queries")
    return Table(directions, classes, asked, np.arange(count, count + behind), numbers)


def _count_of(directions: Directions) -> int:
    if len(directions) == 0:
        raise BatchError("there is no embedding to evaluate", got=(0, directions.width))
    return len(directions)


def _numbers_of(labels: Labels, count: int, what: str) -> NDArray[np.int64]:
    numbers = class_numbers(labels)
    if len(numbers) != count:
        raise BatchError(f"there must be one {what} per embedding", got=f"{count} embeddings, {len(numbers)} {what}s")
    return numbers


def class_numbers(labels: Labels) -> NDArray[np.int64]:
    """Labels of any whole number or text, as numbers 0, 1, 2, ... that are equal where the labels are.

    >>> class_numbers(["owl", "emu", "owl"]).tolist(), class_numbers([10**12, -5, 10**12]).tolist()
    ([1, 0, 1], [1, 0, 1])
    """
    if isinstance(labels, Tensor):
        labels = labels.detach().cpu().numpy()
    if isinstance(labels, np.ndarray) and labels.dtype.kind in "iubUS":
        if labels.ndim != 1:
            raise BatchError("labels must be one row of labels", got=tuple(labels.shape))
        return np.unique(labels, return_inverse=True)[1].astype(np.int64)
    if not isinstance(labels, Iterable) or isinstance(labels, (str, bytes)):
        raise BatchError("labels must be one row of labels", got=type(labels).__name__)
    values = list(labels)
    # NumPy would read [1, "1"] as two equal texts and large whole numbers as rounded ones; Python does neither.
    for kind in (numbers.Integral, str):
        if all(isinstance(value, kind) for value in values):
            numbering = {value: number for number, value in enumerate(sorted(set(values)))}
            return np.array([numbering[value] for value in values], dtype=np.int64)
    raise BatchError(
        "labels must be whole numbers or texts, all of one kind", got=sorted({type(value).__name__ for value in values})
    )


def row_numbers(rows: Rows, count: int, what: str) -> NDArray[np.int64]:
    """Row numbers from a mask or from numbers; each row at most once, each in the table."""
    array = rows.detach().cpu().numpy() if isinstance(rows, Tensor) else np.asarray(rows)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iub"):
        raise BatchError(f"{what} must be row numbers or a mask over the rows", got=f"{array.dtype} of {array.shape}")
    if array.dtype.kind == "b":
        if len(array) != count:
            raise BatchError(f"a mask of {what} must have one entry per row ({count})", got=len(array))
        array = np.flatnonzero(array)
    if array.size == 0:
        raise BatchError(f"{what} hold no row", hint="Use at least one.")
    if array.min() < 0 or array.max() >= count:
        raise BatchError(f"{what} must be rows from 0 to {count - 1}", got=f"{array.min()} to {array.max()}")
    if len(np.unique(array)) != len(array):
        raise BatchError(f"{what} hold a row twice", hint="Use each row once.")
    return array.astype(np.int64)


def _as_list(labels: Labels, count: int, what: str) -> list[Any]:
    values = labels.tolist() if isinstance(labels, (Tensor, np.ndarray)) else list(labels)
    if len(values) != count:
        raise BatchError(f"there must be one {what} per embedding", got=f"{count} embeddings, {len(values)} {what}s")
    return values
