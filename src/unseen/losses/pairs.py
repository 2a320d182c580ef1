"""Pairs: similarities, distances and label masks of one batch, computed once and shared by its miner and its loss."""

import math
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import threshold

from unseen.core.errors import BatchError

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
        log_total, shares = shares_of(values.clone(), mask, dim, with_one=with_one)
        context.dim = dim
        context.save_for_backward(shares)
        return log_total.squeeze(dim)

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        return context.saved_tensors[0] * gradient.unsqueeze(context.dim), None, None, None


def known_gradient(source: Tensor, value: Tensor, slope: Tensor) -> Tensor:
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


def shares_of(logits: Tensor, mask: Tensor, dim: int = 1, *, with_one: bool = False) -> tuple[Tensor, Tensor]:
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
    return known_gradient(values, (values.detach() * weights).sum(), weights)


def masked_sum(values: Tensor, mask: Tensor) -> Tensor:
    """The sum of the values under the mask; values outside it may be anything finite."""
    return (values * mask).sum()


class Pairs:
    """All pairs of a batch (rows: anchors) with itself or with a reference set (columns).

    Everything is computed when first asked for and then kept, in at least float32 and outside autocast. Self pairs
    are in no mask. `detached` gives the same object without gradients: what a miner computes there is not computed
    again for the loss.

    Shape:   n embeddings of width d and m columns -> matrices n x m; without a reference set m = n
    Raises:  BatchError for embeddings that are not 2-D, floating and finite, and for labels that do not fit them
    """

    def __init__(
        self,
        embeddings: Tensor,
        labels: Tensor,
        ref_embeddings: Tensor | None = None,
        ref_labels: Tensor | None = None,
    ) -> None:
        self.embeddings, self._largest, is_ordinary = _checked_embeddings("embeddings", embeddings)
        self.labels = _checked_labels("labels", labels, self.embeddings)
        if (ref_embeddings is None) != (ref_labels is None):
            raise BatchError("a reference set needs embeddings and labels", use="ref_emb together with ref_labels")
        self.is_self = ref_embeddings is None or (ref_embeddings is embeddings and ref_labels is labels)
        # Only then may the lengths be divided out of the products; other rows are brought to length 1 before.
        self._is_ordinary = self.is_self and is_ordinary
        if self.is_self:
            self.ref_embeddings, self._ref_largest, self.ref_labels = self.embeddings, self._largest, self.labels
        else:
            self.ref_embeddings, self._ref_largest, _ = _checked_embeddings("ref_emb", ref_embeddings)
            self.ref_labels = _checked_labels("ref_labels", ref_labels, self.ref_embeddings)
            if self.ref_embeddings.shape[1] != self.embeddings.shape[1]:
                raise BatchError(
                    f"ref_emb must be as wide as the embeddings ({self.embeddings.shape[1]})",
                    got=tuple(self.ref_embeddings.shape),
                )
        # A miner asks first and asks under no_grad; what the loss shares with it must still have its graph.
        self._records_graph = torch.is_grad_enabled()

    def __len__(self) -> int:
        """The number of anchors."""
        return self.embeddings.shape[0]

    @property
    def width(self) -> int:
        """The number of coordinates of an embedding."""
        return self.embeddings.shape[1]

    @cached_property
    def normalized(self) -> Tensor:
        """The embeddings at length 1 (zero vectors stay zero)."""
        with torch.set_grad_enabled(self._records_graph):
            return unit_vectors(self.embeddings, self._largest)

    @cached_property
    def ref_normalized(self) -> Tensor:
        """The reference set at length 1; the embeddings' own unit vectors where there is none."""
        if self.is_self:
            return self.normalized
        with torch.set_grad_enabled(self._records_graph):
            return unit_vectors(self.ref_embeddings, self._ref_largest)

    @cached_property
    def similarity(self) -> Tensor:
        """Cosine similarities, n x m."""
        with torch.set_grad_enabled(self._records_graph):
            if self._is_ordinary:
                return _Cosines.apply(self.embeddings)
            return inner_products(self.normalized, self.ref_normalized)

    @cached_property
    def squared_distance(self) -> Tensor:
        """Squared Euclidean distances of the unit vectors, n x m."""
        with torch.set_grad_enabled(self._records_graph):
            return squared_distance_of(self.similarity)

    @cached_property
    def distance(self) -> Tensor:
        """Euclidean distances of the unit vectors, n x m."""
        with torch.set_grad_enabled(self._records_graph):
            return distance_of(self.similarity)

    def similarity_at(self, anchors: Tensor, others: Tensor) -> Tensor:
        """The similarities of some pairs, by row and column."""
        return self.similarity.flatten().index_select(0, anchors * self.similarity.shape[1] + others)

    @cached_property
    def same(self) -> Tensor:
        """Where the labels are equal, self pairs included."""
        # As bytes, which are compared almost twice as fast as into booleans.
        shape = (len(self.labels), len(self.ref_labels))
        found = torch.empty(shape, dtype=torch.uint8, device=self.labels.device)
        return torch.eq(self.labels.unsqueeze(1), self.ref_labels, out=found).view(torch.bool)

    @cached_property
    def positive(self) -> Tensor:
        """Where the labels are equal and the two are not one and the same sample."""
        return self.same.clone().fill_diagonal_(False) if self.is_self else self.same

    @cached_property
    def negative(self) -> Tensor:
        """Where the labels differ."""
        return ~self.same

    @cached_property
    def positive_count(self) -> Tensor:
        """How many positives each anchor has."""
        return self.same.sum(1) - int(self.is_self)

    @cached_property
    def negative_count(self) -> Tensor:
        """How many negatives each anchor has."""
        return self.same.shape[1] - int(self.is_self) - self.positive_count

    @cached_property
    def detached(self) -> "Pairs":
        """The same pairs without gradients, for miners; shares every matrix and mask that both need."""
        view = object.__new__(Pairs)
        shared = ("is_self", "labels", "ref_labels", "same", "positive", "positive_count", "negative", "negative_count")
        view.__dict__.update({name: getattr(self, name) for name in (*shared, "_largest", "_ref_largest")})
        for name in ("embeddings", "ref_embeddings", "similarity"):
            view.__dict__[name] = getattr(self, name).detach()
        view._records_graph = False
        view.__dict__["detached"] = view
        return view


def pairs_of(
    embeddings: "Tensor | Pairs",
    labels: Tensor | None,
    ref_embeddings: Tensor | None = None,
    ref_labels: Tensor | None = None,
) -> Pairs:
    """The pairs a caller has built already, or new ones from embeddings and labels."""
    if isinstance(embeddings, Pairs):
        if labels is not None or ref_embeddings is not None or ref_labels is not None:
            raise BatchError("pairs hold their labels and reference set already", use="loss(pairs)")
        return embeddings
    if labels is None:
        raise BatchError("embeddings come without labels", use="loss(embeddings, labels) or loss(pairs)")
    return Pairs(embeddings, labels, ref_embeddings, ref_labels)


def _checked_embeddings(name: str, embeddings: Any) -> tuple[Tensor, Tensor, bool]:
    """The embeddings in at least float32, the largest coordinate of each row, and whether all those are ordinary."""
    if not isinstance(embeddings, Tensor) or embeddings.ndim != 2 or 0 in embeddings.shape:
        raise BatchError(f"{name} must be a tensor of n rows and d columns, both at least 1", got=_shape(embeddings))
    if not embeddings.is_floating_point():
        raise BatchError(f"{name} must be floating-point numbers", got=embeddings.dtype)
    if embeddings.dtype not in (torch.float32, torch.float64):
        embeddings = embeddings.float()
    largest = embeddings.detach().abs().amax(1, keepdim=True)
    lowest, highest = map(float, torch.aminmax(largest))
    if not highest < torch.inf:  # NaN neither
        broken = (~largest.isfinite()).nonzero()[:, 0].tolist()
        raise BatchError(
            f"{name}: {len(broken)} of {len(largest)} rows hold NaN or infinity, the first is row {broken[0]}",
            use="a lower learning rate or gradient clipping, and check the inputs of the batch",
        )
    return embeddings, largest, ORDINARY[0] <= lowest and highest <= ORDINARY[1]


def _checked_labels(name: str, labels: Any, embeddings: Tensor) -> Tensor:
    if not isinstance(labels, Tensor) or labels.ndim != 1:
        raise BatchError(f"{name} must be a 1-D tensor of whole numbers", got=_shape(labels))
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise BatchError(f"{name} must be whole numbers", got=labels.dtype)
    if len(labels) != len(embeddings):
        raise BatchError(f"{name} must be one for each of the {len(embeddings)} embeddings", got=len(labels))
    return labels.to(embeddings.device, torch.int64)


def _shape(value: Any) -> Any:
    return tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
