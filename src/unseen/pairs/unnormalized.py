"""Raw embeddings: products, distances and lengths without normalisation, safe for every finite row."""

from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from unseen.pairs.functional import DISTANCE_EPSILON, SHORTEST, inner_products
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
    return _Distances.apply(rows - centre, None if pairs.is_self else limited(pairs.ref_embeddings) - centre)


def cosines_of(products: Tensor) -> Tensor:
    """Cosines of rows from their inner products; rows shorter than 1e-12 have cosine 0 and no gradient."""
    return _Cosines.apply(products)


def length_penalty(rows: Tensor, kind: Regularizer) -> Tensor:
    """The mean squared length of the rows, or their mean length."""
    return rows.square().sum(1).mean() if kind == "squared_norm" else torch.linalg.vector_norm(rows, dim=1).mean()


class _Cosines(torch.autograd.Function):
    """p_ij / sqrt(p_ii p_jj): what changes a length changes the diagonal, so no row is needed for the gradient."""

    @staticmethod
    def forward(context: Any, products: Tensor) -> Tensor:
        squared = products.diagonal()
        inverse = squared.rsqrt().masked_fill_(squared < SHORTEST**2, 0)
        cosines = products * inverse.outer(inverse)
        context.save_for_backward(cosines, inverse)
        return cosines

    @staticmethod
    @once_differentiable  # a second derivative would be wrong, so it is refused
    def backward(context: Any, gradient: Tensor) -> Tensor:
        cosines, inverse = context.saved_tensors
        shared = gradient * cosines
        along = shared.sum(1).add_(shared.sum(0)).mul_(inverse.square()).div_(2)
        weights = torch.mul(gradient, inverse.outer(inverse), out=shared)
        weights.diagonal().sub_(along)
        return weights


class _Distances(torch.autograd.Function):
    """sqrt(|a - b|^2 + 1e-8) for all rows of two matrices, or of one with itself; no n x m x d differences."""

    @staticmethod
    def forward(context: Any, left: Tensor, right: Tensor | None) -> Tensor:
        others = left if right is None else right
        squared = inner_products(left, others).mul_(-2)
        squared += left.square().sum(1, keepdim=True)
        squared += others.square().sum(1)
        if right is None:
            squared.fill_diagonal_(0)  # which rounding would miss
        distance = squared.clamp_(min=0).add_(DISTANCE_EPSILON).sqrt_()
        context.is_self = right is None
        context.save_for_backward(left, others, distance)
        return distance

    @staticmethod
    @once_differentiable  # a second derivative would be wrong, so it is refused
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None]:
        left, right, distance = context.saved_tensors
        weights = gradient / distance
        if context.is_self:
            weights = weights + weights.T
            return _pulled(weights, left, left), None
        return _pulled(weights, left, right), _pulled(weights.T, right, left)


def _pulled(weights: Tensor, rows: Tensor, others: Tensor) -> Tensor:
    """For each row the sum of weight x (row - other) over the others."""
    return weights.sum(1, keepdim=True) * rows - inner_products(weights, others.T)
