"""The arguments of an evaluation, checked and read into one table: directions, classes, queries and gallery."""

import numbers
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from unseen.core.errors import BatchError
from unseen.evaluation.exact.arrays import Integers
from unseen.evaluation.exact.directions import Directions, read_directions

Embeddings: TypeAlias = Tensor | NDArray[np.number]
Labels: TypeAlias = Tensor | NDArray[Any] | Sequence[int] | Sequence[str]
Rows: TypeAlias = Tensor | NDArray[Any] | Sequence[int] | Sequence[bool] | range
Gallery: TypeAlias = tuple[Embeddings, Labels] | tuple[Embeddings, Labels, Labels]


class Table(NamedTuple):
    """Directions with their class numbers, and which rows are queries and which are in the gallery.

    Gallery rows of the query's own ``groups`` number are no candidates for it.
    """

    directions: Directions
    classes: Integers
    queries: Integers
    gallery: Integers
    groups: Integers | None = None

    @property
    def class_count(self) -> int:
        """Number of classes in the table."""
        return int(self.classes.max()) + 1


def read_table(
    embeddings: Embeddings,
    labels: Labels,
    queries: Rows | None = None,
    gallery: Rows | Gallery | None = None,
    *,
    groups: Labels | None = None,
    memory: float = 500,
) -> Table:
    """Read and check a table; by default every row is both a query and in the gallery.

    Queries and gallery are row numbers or a mask over the rows. A gallery may also be a pair (embeddings, labels) of
    its own, or with groups a triple (embeddings, labels, groups): its rows are appended to those of the queries.
    ``memory`` (in MB) bounds what is kept beyond the embeddings.

    Raises: BatchError for shapes, labels or row numbers that do not fit together
    """
    has_own_gallery = isinstance(gallery, tuple) and len(gallery) in (2, 3) and np.ndim(gallery[0]) == 2
    own = cast("tuple[Any, ...]", gallery) if has_own_gallery else ()
    if own and (groups is None) != (len(own) == 2):
        raise BatchError(
            "groups must be given for both sides or for none",
            got=f"groups {'missing' if groups is None else 'given'}, a gallery of {len(own)} parts",
            hint="Pass groups=... together with gallery=(embeddings, labels, groups).",
        )
    directions = read_directions(embeddings, *own[:1], memory=memory)
    if len(directions) == 0:
        raise BatchError("there is no embedding to evaluate", got=(0, directions.width))
    items = len(own[0]) if own else 0
    count = len(directions) - items
    classes = _numbers_of("label", (labels, *own[1:2]), (count, items))
    group_numbers = None if groups is None else _numbers_of("group", (groups, *own[2:]), (count, items))
    query_rows = np.arange(count) if queries is None else row_numbers(queries, count, "queries")
    if own:
        gallery_rows = np.arange(count, count + items)
    else:
        gallery_rows = np.arange(count) if gallery is None else row_numbers(cast("Rows", gallery), count, "gallery")
    return Table(directions, classes, query_rows, gallery_rows, group_numbers)


def _numbers_of(what: str, parts: tuple[Labels, ...], counts: tuple[int, int]) -> Integers:
    """The class or group numbers of the rows of one table, or of two with a common numbering."""
    if len(parts) == 1:
        numbers = class_numbers(parts[0])
        lengths = [len(numbers)]
    else:
        lists = [as_list(part) for part in parts]
        numbers, lengths = class_numbers([value for values in lists for value in values]), [*map(len, lists)]
    for length, count in zip(lengths, counts, strict=False):
        if length != count:
            raise BatchError(f"there must be one {what} per embedding", got=f"{count} embeddings, {length} {what}s")
    return numbers


def class_numbers(labels: Labels) -> Integers:
    """Labels (integers of any size, or strings) as numbers 0, 1, 2, ... in the order of the labels.

    >>> class_numbers(["owl", "emu", "owl"]).tolist(), class_numbers([10**12, -5, 10**12]).tolist()
    ([1, 0, 1], [1, 0, 1])
    """
    if isinstance(labels, Tensor):
        labels = labels.detach().cpu().numpy()
    if isinstance(labels, np.ndarray) and labels.dtype.kind in "iubUS":
        if labels.ndim != 1:
            raise BatchError("labels must be one-dimensional", got=tuple(labels.shape))
        return np.unique(labels, return_inverse=True)[1].astype(np.int64)
    if not isinstance(labels, Iterable) or isinstance(labels, (str, bytes)):
        raise BatchError("labels must be a sequence of labels", got=type(labels).__name__)
    values = list(labels)
    # NumPy would read [1, "1"] as two equal strings and round large integers.
    for kind in (numbers.Integral, str):
        if all(isinstance(value, kind) for value in values):
            numbering = {value: number for number, value in enumerate(sorted(set(values)))}
            return np.array([numbering[value] for value in values], dtype=np.int64)
    raise BatchError(
        "labels must be integers or strings, all of one kind", got=sorted({type(value).__name__ for value in values})
    )


def row_numbers(rows: Rows, count: int, what: str) -> Integers:
    """Row numbers from a mask or from row numbers, which must be distinct and in the table."""
    array = rows.detach().cpu().numpy() if isinstance(rows, Tensor) else np.asarray(rows)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iub"):
        raise BatchError(f"{what} must be row numbers or a mask over the rows", got=f"{array.dtype} of {array.shape}")
    if array.dtype.kind == "b":
        if len(array) != count:
            raise BatchError(f"a mask of {what} must have one entry per row ({count})", got=len(array))
        array = np.flatnonzero(array)
    if array.size == 0:
        raise BatchError(f"{what} hold no row", hint="Select at least one row.")
    if array.min() < 0 or array.max() >= count:
        raise BatchError(f"{what} must be rows from 0 to {count - 1}", got=f"{array.min()} to {array.max()}")
    if len(np.unique(array)) != len(array):
        raise BatchError(f"{what} hold a row twice", hint="List each row once.")
    return array.astype(np.int64)


def as_list(labels: Labels) -> list[Any]:
    """Labels as Python integers or strings."""
    return labels.tolist() if isinstance(labels, (Tensor, np.ndarray)) else list(labels)
