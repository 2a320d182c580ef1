"""Vectors: unit vectors, inner products, cosines and distances of the rows of matrices.

Each is finite with finite gradients for every finite input and keeps its precision under autocast.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import threshold

from unseen.pairs.functional.autograd import first_order
from unseen.pairs.functional.small import SMALL, floats, is_small

DISTANCE_EPSILON = 1e-8
"""Added to squared distances before the root, so that a distance of 0 has a finite gradient."""

LEAST_DISTANCE = {
    kind: float(torch.tensor(DISTANCE_EPSILON, dtype=kind).sqrt()) for kind in (torch.float32, torch.float64)
}
"""The distance of equal vectors, rounded as in `distance_of`; it has no slope."""

SHORTEST = 1e-12
"""A vector without a coordinate this large has no direction: it counts as zero and gets no gradient."""

ORDINARY = (1e-9, 1e9)
"""Between these, the largest coordinates of rows may be squared, multiplied and divided by each other in float32."""


class LargestCoordinates(NamedTuple):
    """The largest absolute coordinate of each row, n x 1, and the smallest and largest of these."""

    of_rows: Tensor
    lowest: float
    highest: float


def largest_coordinates(rows: Tensor) -> LargestCoordinates:
    """Largest absolute coordinates; `highest` is infinite or NaN if any coordinate is."""
    rows = rows.detach()
    if is_small(rows):
        from unseen.pairs.kernels import vectors

        largest = rows.new_empty(len(rows), 1)
        numbers = floats(largest)
        places = vectors.largest_coordinates(floats(rows).view(np.int32), numbers.view(np.int32))
        return LargestCoordinates(largest, *(float(numbers[place, 0]) for place in places))
    largest = rows.abs().amax(1, keepdim=True)
    return LargestCoordinates(largest, *map(float, torch.aminmax(largest)))


class _Unit(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, vectors: Tensor, scale: Tensor) -> Tensor:
        unit = vectors / scale
        # Rows with a direction have a coordinate of exactly 1 here, so only zero rows are clamped.
        length = torch.linalg.vector_norm(unit, dim=1, keepdim=True).clamp_(min=0.5)
        unit /= length
        context.save_for_backward(unit, length * scale)
        return unit

    @staticmethod
    @first_order("unit_vectors")
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        unit, length = context.saved_tensors
        return (gradient - unit * (gradient * unit).sum(1, keepdim=True)) / length, None


def unit_vectors(vectors: Tensor, largest: Tensor | None = None) -> Tensor:
    """The rows scaled to length 1, finite with finite gradients for every finite row.

    Rows are first divided by their largest coordinate, so that squares neither overflow nor vanish; a row whose
    coordinates are all below 1e-12 becomes zero and gets no gradient. `largest` may hold those coordinates already.
    """
    if largest is None:
        largest = largest_coordinates(vectors).of_rows
    return _Unit.apply(vectors, largest.masked_fill(largest < SHORTEST, torch.inf))


def _product(left: Tensor, right: Tensor) -> Tensor:
    # Autocast would round to half precision, forward and, when backward() is called under it, the gradient too.
    if not torch.is_autocast_enabled(left.device.type):
        return left @ right
    with torch.autocast(left.device.type, enabled=False):
        return left @ right


class _InnerProducts(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, left: Tensor, right: Tensor) -> Tensor:
        context.save_for_backward(left, right)
        return _product(left, right.mT)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        left, right = context.saved_tensors
        return _product(gradient, right), _product(gradient.mT, left)


class _SelfProducts(torch.autograd.Function):
    """The same for one matrix with itself; its gradient needs one product where autograd would take two."""

    @staticmethod
    def forward(context: Any, rows: Tensor) -> Tensor:
        context.save_for_backward(rows)
        return _product(rows, rows.mT)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        (rows,) = context.saved_tensors
        return _product(gradient + gradient.mT, rows)


def inner_products(left: Tensor, right: Tensor) -> Tensor:
    """All inner products of the rows of two matrices or stacks of them, in their own precision even under autocast."""
    return _SelfProducts.apply(left) if left is right else _InnerProducts.apply(left, right)


class _Cosines(torch.autograd.Function):
    """Divide the lengths out of the n x n products, with no pass over n x d numbers.

    With v = 1/length, S = F F^T v v^T. From the gradient H of S, made symmetric, that of F is one product more:
    M F, with M = H v v^T but for the diagonal, which loses v_i^2 sum_j H_ij S_ij.
    """

    @staticmethod
    def forward(context: Any, rows: Tensor) -> Tensor:
        similarity = _product(rows, rows.mT)
        context.is_small = is_small(similarity)
        if context.is_small:
            from unseen.pairs.kernels.vectors import divide_lengths

            inverse = similarity.new_empty(len(rows))
            divide_lengths(floats(similarity), floats(inverse))
            context.save_for_backward(rows, inverse, similarity)
            return similarity
        inverse = similarity.diagonal().rsqrt()
        scales = inverse.outer(inverse)
        similarity *= scales
        context.save_for_backward(rows, scales, similarity)
        return similarity

    @staticmethod
    @first_order("cosines")
    def backward(context: Any, gradient: Tensor) -> Tensor:
        rows, scales, similarity = context.saved_tensors
        if context.is_small:
            from unseen.pairs.kernels.vectors import cosine_weights

            weights = torch.empty_like(similarity)
            cosine_weights(floats(gradient), floats(similarity), floats(scales), floats(weights))
            return _product(weights, rows)
        # Copied first: adding a matrix to its transpose jumps through memory for every number.
        weights = gradient.mT.contiguous().add_(gradient)
        along = (weights * similarity).sum(1)  # not vecdot, which autocast would round
        weights *= scales
        weights.diagonal().sub_(along.mul_(scales.diagonal()))
        return _product(weights, rows)


def cosines(rows: Tensor) -> Tensor:
    """All cosine similarities of rows that are neither near zero nor huge (`ORDINARY`), without their unit vectors."""
    return _Cosines.apply(rows)


class _CosinesFromProducts(torch.autograd.Function):
    """p_ij / sqrt(p_ii p_jj): what changes a length changes the diagonal, so no row is needed for the gradient."""

    @staticmethod
    def forward(context: Any, products: Tensor) -> Tensor:
        squared = products.diagonal()
        inverse = squared.rsqrt().masked_fill_(squared < SHORTEST**2, 0)
        cosines = products * inverse.outer(inverse)
        context.save_for_backward(cosines, inverse)
        return cosines

    @staticmethod
    @first_order("cosines_from_products")
    def backward(context: Any, gradient: Tensor) -> Tensor:
        cosines, inverse = context.saved_tensors
        shared = gradient * cosines
        along = shared.sum(1).add_(shared.sum(0)).mul_(inverse.square()).div_(2)
        weights = torch.mul(gradient, inverse.outer(inverse), out=shared)
        weights.diagonal().sub_(along)
        return weights


def cosines_from_products(products: Tensor) -> Tensor:
    """Cosines of rows from all their inner products; rows shorter than 1e-12 have cosine 0 and no gradient."""
    return _CosinesFromProducts.apply(products)


def squared_distance_of(similarity: Tensor) -> Tensor:
    """Squared Euclidean distances of unit vectors from their cosine similarities: max(2 - 2 s, 0)."""
    return torch.rsub(similarity, 2, alpha=2).clamp(min=0)


class _Distance(torch.autograd.Function):
    """Where the maximum is 0 the distance has no slope, else -1 / distance."""

    @staticmethod
    def forward(context: Any, similarity: Tensor) -> Tensor:
        distance = torch.rsub(similarity, 2 + DISTANCE_EPSILON, alpha=2).clamp_(min=DISTANCE_EPSILON).sqrt_()
        context.save_for_backward(distance)
        return distance

    @staticmethod
    @first_order("distance_of")
    def backward(context: Any, gradient: Tensor) -> Tensor:
        (distance,) = context.saved_tensors
        return threshold(distance, LEAST_DISTANCE[distance.dtype], torch.inf).reciprocal_().neg_().mul_(gradient)


def distance_of(similarity: Tensor) -> Tensor:
    """Euclidean distances of unit vectors from their cosine similarities: sqrt(max(2 - 2 s, 0) + 1e-8)."""
    return _Distance.apply(similarity)


class _EuclideanDistances(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, left: Tensor, right: Tensor | None) -> Tensor:
        context.is_small = right is None and len(left) ** 2 <= SMALL and is_small(left.detach())
        if context.is_small:
            from unseen.pairs.kernels.vectors import distances_from_products

            distance = _product(left, left.mT)
            distances_from_products(floats(distance), np.float32(DISTANCE_EPSILON))
            context.save_for_backward(left, distance)
            return distance
        others = left if right is None else right
        squared = _product(left, others.mT).mul_(-2)
        squared += left.square().sum(1, keepdim=True)
        squared += others.square().sum(1)
        if right is None:
            squared.fill_diagonal_(0)  # which rounding would miss
        distance = squared.clamp_(min=0).add_(DISTANCE_EPSILON).sqrt_()
        context.is_self = right is None
        context.save_for_backward(left, others, distance)
        return distance

    @staticmethod
    @first_order("euclidean_distances")
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None]:
        if context.is_small:
            from unseen.pairs.kernels.vectors import distance_weights

            rows, distance = context.saved_tensors
            weights = torch.empty_like(distance)
            distance_weights(floats(gradient), floats(distance), weights.numpy())
            return _product(weights, rows), None
        left, right, distance = context.saved_tensors
        weights = gradient / distance
        if context.is_self:
            weights = weights + weights.T
            return _weighted_differences(weights, left, left), None
        return _weighted_differences(weights, left, right), _weighted_differences(weights.T, right, left)


def _weighted_differences(weights: Tensor, rows: Tensor, others: Tensor) -> Tensor:
    """For each row the sum of weight x (row - other) over the others."""
    return weights.sum(1, keepdim=True) * rows - _product(weights, others)


def euclidean_distances(left: Tensor, right: Tensor | None = None) -> Tensor:
    """sqrt(|a - b|^2 + 1e-8) for all rows of two matrices, or of one with itself, without n x m x d differences."""
    return _EuclideanDistances.apply(left, right)
