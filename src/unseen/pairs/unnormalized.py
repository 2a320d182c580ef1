"""Raw embeddings: products, distances and lengths without normalisation, safe for every finite row."""

from typing import Literal

import torch
from torch import Tensor

from unseen.pairs.functional import euclidean_distances, inner_products
from unseen.pairs.pairs import Pairs

LARGEST = 1e12
"""Rows with a coordinate beyond this are divided by a constant to reach it: their squares still fit into float32."""

Regularizer = Literal["squared_norm", "norm"]


def limited(vectors: Tensor) -> Tensor:
    """The rows as they are; one with a coordinate beyond 1e12 is divided by a constant that brings it there.

    The constant takes no part in the gradient, so a row that long is still pulled back by a penalty on its length.
    """
    largest = vectors.detach().abs().amax(1, keepdim=True)
    if largest.amax().item() <= LARGEST:
        return vectors
    return vectors * (LARGEST / largest).clamp(max=1)


def raw_products(rows: Tensor, pairs: Pairs, divisor: float = 1.0) -> Tensor:
    """Inner products of the limited rows of a batch with its columns, n x m; `divisor` is the one of the rows."""
    return inner_products(rows, rows if pairs.is_self else limited(pairs.ref_embeddings / divisor))


def raw_distance(rows: Tensor, pairs: Pairs) -> Tensor:
    """Euclidean distances, sqrt(d^2 + 1e-8), of the limited rows of a batch to its columns, n x m."""
    # Distances do not see the common centre, but the cancellation in |a|^2 + |b|^2 - 2 ab does.
    centre = rows.detach().mean(0)
    return euclidean_distances(rows - centre, None if pairs.is_self else limited(pairs.ref_embeddings) - centre)


def length_penalty(rows: Tensor, kind: Regularizer) -> Tensor:
    """The mean squared length of the rows, or their mean length."""
    return rows.square().sum(1).mean() if kind == "squared_norm" else torch.linalg.vector_norm(rows, dim=1).mean()
