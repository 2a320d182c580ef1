"""Hinges over listed tuples: the pairs of triplets against bounds, and pairs compared with each other."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from unseen.pairs.functional.autograd import with_gradient, with_gradients
from unseen.pairs.functional.hinges import Hinges
from unseen.pairs.functional.small import flags, floats, is_small
from unseen.pairs.functional.vectors import distance_of, squared_distance_of

Measure = Literal["value", "distance", "squared"]
MEASURES: dict[Measure, Callable[[Tensor], Tensor]] = {
    "value": lambda values: values,
    "distance": distance_of,
    "squared": squared_distance_of,
}
"""What is compared, by name; compiled loops know them by their position."""

Places = tuple[Tensor, Tensor]
"""Rows and columns of some entries of a matrix."""


def entries(matrix: Tensor, places: Places) -> Tensor:
    """Entries of a matrix by row and column; the gradient is one sparse update."""
    rows, columns = places
    return taken(matrix, rows * matrix.shape[1] + columns)


def taken(values: Tensor, positions: Tensor) -> Tensor:
    """`Tensor.take` with a gradient that also has a deterministic form on a GPU."""
    return values.flatten().index_select(0, positions.flatten()).view_as(positions)


class ListedHinges(NamedTuple):
    """Sum of the hinges of all triplets, how many hinges are above 0, and how many triplets have one that is."""

    total: Tensor
    num_active: Tensor | int
    num_active_triplets: Tensor | int


def listed_pair_hinges(
    similarity: Tensor,
    triplets: tuple[Tensor, Tensor, Tensor],
    *,
    bounds: tuple[Tensor | float, Tensor | float],
    slack: float = 0.0,
    squared: bool = False,
) -> ListedHinges:
    """[d_ap - near + slack]_+ and [far - d_an + slack]_+ over triplets of unit vectors, or half the squares.

    Anchors are rows of the similarities, positives and negatives columns. The bounds near and far are numbers, or
    tensors (scalars or one number per triplet) that get a gradient too.
    """
    anchor, positive, negative = triplets
    near_bound, far_bound = bounds
    if is_small(similarity):
        return _small_pair_hinges(similarity, torch.stack(triplets), bounds, slack, squared)
    near, far = distance_of(entries(similarity, (anchor, torch.stack((positive, negative)))))
    hinge = (torch.stack((near - near_bound, far_bound - far)) + slack).relu()
    is_active = hinge > 0
    total = (hinge.square() / 2 if squared else hinge).sum()
    return ListedHinges(total, is_active.sum(), is_active.any(0).sum())


def _small_pair_hinges(
    similarity: Tensor, triplets: Tensor, bounds: tuple[Tensor | float, Tensor | float], slack: float, squared: bool
) -> ListedHinges:
    from unseen.pairs.kernels.hinges import hinge_pairs

    columns = [floats(bound).reshape(-1) if isinstance(bound, Tensor) else (bound,) for bound in (*bounds, slack)]
    width = max(map(len, columns))
    limits = np.empty((3, width), np.float32)
    for row, column in zip(limits, columns, strict=True):
        row[:] = column
    slope, bound_slope = torch.zeros_like(similarity), torch.empty(2, triplets.shape[1])
    numbers, indices = floats(similarity), triplets.numpy()
    value, *active = hinge_pairs(numbers, indices, limits, squared, slope.numpy(), bound_slope.numpy())
    sources = [(similarity, slope)]
    for bound, slopes in zip(bounds, bound_slope, strict=True):
        if isinstance(bound, Tensor) and bound.requires_grad:
            sources.append((bound, slopes.sum_to_size(bound.shape)))
    total = with_gradients(similarity.new_tensor(value), sources)
    return ListedHinges(total, *active)


def listed_comparisons(
    matrix: Tensor,
    near: Places,
    far: Places,
    *,
    margin: float,
    measure: Measure = "distance",
    is_counted: Tensor | None = None,
) -> Hinges:
    """[near - far + margin]_+ over two lists of entries of a matrix, compared one by one.

    `measure`: what is compared; "distance" and "squared" distance are those of unit vectors whose cosines the matrix
    holds. `is_counted` says which comparisons count (None: all).
    """
    num_terms = len(near[0]) if is_counted is None else is_counted.count_nonzero()
    if is_small(matrix):
        return _small_comparisons(matrix, torch.stack((*near, *far)), is_counted, margin, measure)._replace(
            num_terms=num_terms
        )
    of_near, of_far = MEASURES[measure](
        entries(matrix, (torch.stack((near[0], far[0])), torch.stack((near[1], far[1]))))
    )
    hinge = (of_near - of_far + margin).relu()
    if is_counted is not None:
        hinge = hinge * is_counted
    return Hinges(hinge.sum(), num_terms, hinge.count_nonzero())


def _small_comparisons(
    matrix: Tensor, places: Tensor, is_counted: Tensor | None, margin: float, measure: Measure
) -> Hinges:
    from unseen.pairs.kernels.hinges import compare_places

    slope = torch.zeros_like(matrix)
    counted = np.ones(places.shape[1], np.uint8) if is_counted is None else flags(is_counted)
    kind = list(MEASURES).index(measure)
    value, num_active = compare_places(floats(matrix), places.numpy(), counted, np.float32(margin), kind, slope.numpy())
    num_terms = int(np.count_nonzero(counted))
    return Hinges(with_gradient(matrix, matrix.new_tensor(value), slope), num_terms, num_active)
