"""What people hand in, read into one checked table: directions, class numbers, queries and gallery."""

import numbers
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unseen.core.errors import BatchError
from unseen.evaluation.directions import Directions, read_directions

Embeddings: TypeAlias = Tensor | NDArray[np.floating]
Labels: TypeAlias = Tensor | NDArray[Any] | Sequence[int] | Sequence[str]
Rows: TypeAlias = Tensor | NDArray[Any] | Sequence[int] | Sequence[bool] | range


class Table(NamedTuple):
    """Embeddings with their classes, and which rows ask and which rows may answer."""

    directions: Directions
    classes: NDArray[np.int64]
    queries: NDArray[np.int64]
    gallery: NDArray[np.int64]


def read_table(
    embeddings: Embeddings,
    labels: Labels,
    queries: Rows | None = None,
    gallery: Rows | tuple[Embeddings, Labels] | None = None,
) -> Table:
    """The checked table; without queries (gallery) every row is one.

    Queries and gallery are row numbers or a mask over the rows. A gallery may also be a pair (embeddings, labels) of
    its own: its rows are then put behind those of the queries.

    Raises: BatchError for shapes, labels or row numbers that do not fit
    """
    directions = read_directions(embeddings)
    count = len(directions.units)
    if count == 0:
        raise BatchError("there is no embedding to evaluate", got=tuple(directions.units.shape))
    if isinstance(gallery, tuple) and len(gallery) == 2 and np.ndim(gallery[0]) == 2:
        directions = _behind(directions, read_directions(gallery[0]))
        classes = class_numbers(_as_list(labels, count) + _as_list(gallery[1], len(directions.units) - count))
        asked = np.arange(count) if queries is None else row_numbers(queries, count, "queries")
        return Table(directions, classes, asked, np.arange(count, len(directions.units)))
    classes = class_numbers(labels)
    if len(classes) != count:
        raise BatchError("there must be one label per embedding", got=f"{count} embeddings, {len(classes)} labels")
    every = np.arange(count)
    return Table(
        directions,
        classes,
        every if queries is None else row_numbers(queries, count, "queries"),
        every if gallery is None else row_numbers(gallery, count, "gallery"),
    )


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
        raise BatchError(f"{what} hold no row", use="at least one")
    if array.min() < 0 or array.max() >= count:
        raise BatchError(f"{what} must be rows from 0 to {count - 1}", got=f"{array.min()} to {array.max()}")
    if len(np.unique(array)) != len(array):
        raise BatchError(f"{what} hold a row twice", use="each row once")
    return array.astype(np.int64)


def _behind(first: Directions, second: Directions) -> Directions:
    if first.units.shape[1] != second.units.shape[1]:
        widths = f"{first.units.shape[1]} and {second.units.shape[1]} dimensions"
        raise BatchError("queries and gallery must have embeddings of one width", got=widths)
    return Directions(*(torch.cat(pair) for pair in zip(first, second, strict=True)))


def _as_list(labels: Labels, count: int) -> list[Any]:
    values = labels.tolist() if isinstance(labels, (Tensor, np.ndarray)) else list(labels)
    if len(values) != count:
        raise BatchError("there must be one label per embedding", got=f"{count} embeddings, {len(values)} labels")
    return values
