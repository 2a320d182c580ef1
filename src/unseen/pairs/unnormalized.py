"""Unnormalised embeddings: products, distances and length penalties that are finite for every finite row."""

from typing import Any, Literal

import torch
from torch import Tensor

from unseen.pairs.functional import euclidean_distances, first_order, inner_products, largest_coordinates
from unseen.pairs.pairs import Pairs

LARGEST = 1e12
"""Rows with a larger coordinate are scaled down to it, so that their squares fit into float32."""

Regularizer = Literal["squared_norm", "norm"]


def limited(vectors: Tensor) -> Tensor:
    """The rows unchanged, except that one with a coordinate beyond 1e12 is scaled down to it.

    The scale is a constant for the gradient, so a penalty on the length still shortens such a row.
    """
    largest = largest_coordinates(vectors)
    return vectors if largest.highest <= LARGEST else vectors * (LARGEST / largest.of_rows).clamp(max=1)


def raw_products(rows: Tensor, pairs: Pairs, divisor: float = 1.0) -> Tensor:
    """Inner products of the scaled rows of a batch with its columns, n x m; columns are divided by `divisor`."""
    return inner_products(rows, rows if pairs.is_self else limited(pairs.ref_embeddings / divisor))


def raw_distance(rows: Tensor, pairs: Pairs) -> Tensor:
    """Euclidean distances sqrt(d^2 + 1e-8) of the scaled rows of a batch to its columns, n x m."""
    # A common offset does not change distances, but it costs precision in |a|^2 + |b|^2 - 2 ab.
    centre = rows.detach().mean(0)
    return euclidean_distances(rows - centre, None if pairs.is_self else limited(pairs.ref_embeddings) - centre)


class _MeanSquare(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, rows: Tensor) -> Tensor:
        context.save_for_backward(rows)
        numbers = rows.flatten()
        return torch.dot(numbers, numbers) / len(rows)

    @staticmethod
    @first_order("length_penalty")
    def backward(context: Any, gradient: Tensor) -> Tensor:
        (rows,) = context.saved_tensors
        return rows * (gradient * (2 / len(rows)))


def length_penalty(rows: Tensor, kind: Regularizer) -> Tensor:
    """Mean squared length of the rows, or their mean length."""
    return _MeanSquare.apply(rows) if kind == "squared_norm" else torch.linalg.vector_norm(rows, dim=1).mean()
