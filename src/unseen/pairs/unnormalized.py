"""Unnormalised embeddings: products, distances and length penalties that are finite for every finite row."""

from typing import Literal

import torch
from torch import Tensor

from unseen.pairs.functional import euclidean_distances, inner_products
from unseen.pairs.pairs import Pairs

LARGEST = 1e12
"""Rows with a larger coordinate are scaled down to it, so that their squares fit into float32."""

Regularizer = Literal["squared_norm", "norm"]


def limited(vectors: Tensor) -> Tensor:
    """The rows unchanged, except that one with a coordinate beyond 1e12 is scaled down to it.

    The scale is a constant for the gradient, so a penalty on the length still shortens such a row.
    """
    largest = vectors.detach().abs().amax(1, keepdim=True)
    if largest.amax().item() <= LARGEST:
        return vectors
    return vectors * (LARGEST / largest).clamp(max=1)


def raw_products(rows: Tensor, pairs: Pairs, divisor: float = 1.0) -> Tensor:
    """Inner products of the scaled rows of a batch with its columns, n x m; columns are divided by `divisor`."""
    return inner_products(rows, rows if pairs.is_self else limited(pairs.ref_embeddings / divisor))


def raw_distance(rows: Tensor, pairs: Pairs) -> Tensor:
    """Euclidean distances sqrt(d^2 + 1e-8) of the scaled rows of a batch to its columns, n x m."""
    # A common offset does not change distances, but it costs precision in |a|^2 + |b|^2 - 2 ab.
    centre = rows.detach().mean(0)
    return euclidean_distances(rows - centre, None if pairs.is_self else limited(pairs.ref_embeddings) - centre)


def length_penalty(rows: Tensor, kind: Regularizer) -> Tensor:
    """Mean squared length of the rows, or their mean length."""
    return rows.square().sum(1).mean() if kind == "squared_norm" else torch.linalg.vector_norm(rows, dim=1).mean()
