"""Pieces that losses are made of: unit vectors, inner products, distances, sums of exponentials, masked sums.

Each is finite with finite gradients for every finite input, keeps its precision under autocast, and has its gradient
written down where autograd's own would walk the matrix more often than needed.
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import threshold

DISTANCE_EPSILON = 1e-8
"""Added to squared distances before the root, so that a distance of 0 has a finite gradient."""

SHORTEST = 1e-12
"""A vector without a coordinate this large has no direction: it counts as zero and gets no gradient."""

ORDINARY = (1e-9, 1e9)
"""Between these, the largest coordinates of rows may be squared, multiplied and divided by each other in float32."""


LOG2_E = math.log2(math.e)
"""exp(x) is exp2(LOG2_E x)."""


class _Unit(torch.autograd.Function):
    """Rows divided by `scale` and then by their length; the gradient in four operations instead of eleven."""

    @staticmethod
    def forward(context: Any, vectors: Tensor, scale: Tensor) -> Tensor:
        unit = vectors / scale
        # Rows with a direction have a coordinate of exactly 1 here, so only zero rows are clamped.
        length = torch.linalg.vector_norm(unit, dim=1, keepdim=True).clamp_(min=0.5)
        unit /= length
        context.save_for_backward(unit, length * scale)
        return unit

    @staticmethod
    @once_differentiable  # a second derivative would be wrong, so it is refused
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        unit, length = context.saved_tensors
        return (gradient - unit * (gradient * unit).sum(1, keepdim=True)) / length, None


def _product(left: Tensor, right: Tensor) -> Tensor:
    # Autocast would round to half precision, forward and, when backward() is called under it, the gradient too.
    if not torch.is_autocast_enabled(left.device.type):
        return left @ right
    with torch.autocast(left.device.type, enabled=False):
        return left @ right


class _InnerProducts(torch.autograd.Function):
    """All inner products of the rows of two matrices, forward and backward in their own precision."""

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


class _Cosines(torch.autograd.Function):
    """Cosines of the rows of one matrix among themselves, the lengths divided out of the n x n products.

    With v = 1/length, S = F F^T v v^T. From the gradient H of S, made symmetric, that of F is one product more:
    M F, with M = H v v^T but for the diagonal, which loses v_i^2 sum_j H_ij S_ij. No pass over n x d numbers.
    """

    @staticmethod
    def forward(context: Any, rows: Tensor) -> Tensor:
        similarity = _product(rows, rows.mT)
        inverse = similarity.diagonal().rsqrt()
        similarity *= inverse.unsqueeze(1) * inverse
        context.save_for_backward(rows, inverse, similarity)
        return similarity

    @staticmethod
    @once_differentiable  # a second derivative would be wrong, so it is refused
    def backward(context: Any, gradient: Tensor) -> Tensor:
        rows, inverse, similarity = context.saved_tensors
        # Copied first: adding a matrix to its transpose jumps through memory for every number.
        weights = gradient.mT.contiguous().add_(gradient)
        along = (weights * similarity).sum(1)  # not vecdot, which autocast would round
        weights.mul_(inverse.unsqueeze(1)).mul_(inverse)
        weights.diagonal().sub_(along.mul_(inverse).mul_(inverse))
        return _product(weights, rows)


class _Distance(torch.autograd.Function):
    """sqrt(max(2 - 2 s, 0) + 1e-8); where the maximum is 0 it has no slope, else -1 / distance."""

    @staticmethod
    def forward(context: Any, similarity: Tensor) -> Tensor:
        distance = torch.rsub(similarity, 2 + DISTANCE_EPSILON, alpha=2).clamp_(min=DISTANCE_EPSILON).sqrt_()
        context.save_for_backward(distance)
        return distance

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor) -> Tensor:
        return distance_slope(context.saved_tensors[0]).mul_(gradient)


class _Known(torch.autograd.Function):
    """A value with the slope that came with it."""

    @staticmethod
    def forward(context: Any, source: Tensor, value: tuple[Tensor], slope: Tensor) -> Tensor:
        context.save_for_backward(slope)
        # In a tuple, autograd does not take the value for an input, whose return would be a view: no one could add
        # to that in place, as other libraries do to losses.
        return value[0]

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return context.saved_tensors[0] * gradient, None, None


class _LogSumExp(torch.autograd.Function):
    """The logs of masked sums of exponentials, whose slopes are the shares of the exponentials in their sums."""

    @staticmethod
    def forward(context: Any, values: Tensor, mask: Tensor, dim: int, with_one: bool) -> Tensor:
        log_total, shares = masked_softmax(values.clone(), mask, dim, with_one=with_one)
        context.dim = dim
        context.save_for_backward(shares)
        return log_total.squeeze(dim)

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        return context.saved_tensors[0] * gradient.unsqueeze(context.dim), None, None, None


def with_gradient(source: Tensor, value: Tensor, slope: Tensor) -> Tensor:
    """A value, computed without a graph, as a function of `source` with this slope.

    For losses whose slope falls off while the value is computed: in place, where autograd would keep every step.
    The value is one number, with a slope for each entry of the source, or a matrix of functions of single entries, or
    of rows, with a last dimension of 1.
    """
    return _Known.apply(source, (value,), slope)


def unit_vectors(vectors: Tensor, largest: Tensor | None = None) -> Tensor:
    """The rows at length 1, finite with finite gradients for every finite row.

    Rows are first divided by their largest coordinate, so that squares neither overflow nor vanish; a row whose
    coordinates are all below 1e-12 gives zeros and gets no gradient. `largest` may hold those coordinates already.
    """
    if largest is None:
        largest = vectors.detach().abs().amax(1, keepdim=True)
    return _Unit.apply(vectors, largest.masked_fill(largest < SHORTEST, torch.inf))


def inner_products(left: Tensor, right: Tensor) -> Tensor:
    """All inner products of the rows of two matrices or stacks of them, in their own precision even under autocast."""
    return _SelfProducts.apply(left) if left is right else _InnerProducts.apply(left, right)


def cosines(rows: Tensor) -> Tensor:
    """All cosine similarities of rows that are neither near zero nor huge (`ORDINARY`), without their unit vectors."""
    return _Cosines.apply(rows)


def squared_distance_of(similarity: Tensor) -> Tensor:
    """Squared Euclidean distances of unit vectors from their similarities: 2 - 2 s, never below 0."""
    return torch.rsub(similarity, 2, alpha=2).clamp(min=0)


def distance_of(similarity: Tensor) -> Tensor:
    """Euclidean distances of unit vectors from their similarities: sqrt(max(2 - 2 s, 0) + 1e-8)."""
    return _Distance.apply(similarity)


def distance_slope(distance: Tensor) -> Tensor:
    """The slopes of distances by their similarities: -1 / distance, and 0 where `distance_of` stopped at its least."""
    least = float(torch.tensor(DISTANCE_EPSILON, dtype=distance.dtype).sqrt())
    return threshold(distance, least, torch.inf).reciprocal_().neg_()


def masked_softmax(logits: Tensor, mask: Tensor, dim: int = 1, *, with_one: bool = False) -> tuple[Tensor, Tensor]:
    """log(sum of exp(logit) over the mask) along a dimension, which stays, and each one's share of that sum.

    `with_one` adds 1 to the sums, which no share counts. Overwrites the logits; never overflows. Where the mask is
    empty the log and the shares are 0.
    """
    largest = logits.masked_fill_(~mask, -torch.inf).amax(dim, keepdim=True)
    largest = largest.clamp_(min=0) if with_one else largest.masked_fill_(largest == -torch.inf, 0)
    # exp takes up to forty times as long as exp2 where it vanishes, which it does for most pairs.
    exponentials = logits.sub_(largest).mul_(LOG2_E).exp2_()
    total = exponentials.sum(dim, keepdim=True)
    # The largest exponential is 1, so a sum below 1 is an empty one.
    total = total.add_(largest.neg().exp_()) if with_one else total.clamp_(min=1)
    return largest + total.log(), exponentials.div_(total)


def log1p_sum_exp(values: Tensor, mask: Tensor, dim: int = 1) -> Tensor:
    """log(1 + sum of exp(value) over the mask) along a dimension; 0 where the mask is empty. Never overflows."""
    return _LogSumExp.apply(values, mask, dim, True)


def log_sum_exp(values: Tensor, mask: Tensor, dim: int = 1) -> Tensor:
    """log(sum of exp(value) over the mask) along a dimension; 0, without gradient, where the mask is empty."""
    return _LogSumExp.apply(values, mask, dim, False)


def entries(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """The mask as ones and zeros; as bytes, which convert several times faster than booleans."""
    return mask.view(torch.uint8).to(dtype)


def number(mask: Tensor) -> Tensor:
    """How many entries each row of a mask has, in float64, which sums bytes in half the time of whole numbers."""
    return mask.view(torch.uint8).sum(1, dtype=torch.float64)


def weighed_sum(values: Tensor, weights: Tensor) -> Tensor:
    """The sum of the values times their weights, which take no part in the gradient."""
    return with_gradient(values, (values.detach() * weights).sum(), weights)


def masked_sum(values: Tensor, mask: Tensor) -> Tensor:
    """The sum of the values under the mask; values outside it may be anything finite."""
    return (values * mask).sum()
