"""Pairs: similarities, distances and label masks of one batch, computed once and shared by its miner and its loss."""

from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from unseen.core.errors import BatchError
from unseen.pairs.functional import (
    ORDINARY,
    cosines,
    distance_of,
    inner_products,
    row_counts,
    squared_distance_of,
    unit_vectors,
)


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
            raise BatchError(
                "a reference set needs embeddings and labels", hint="Use ref_emb together with ref_labels."
            )
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
                return cosines(self.embeddings)
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

    def similarity_at(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Cosine similarities of some pairs, by row and column; the gradient is one sparse update."""
        return self.similarity.take(rows * self.similarity.shape[1] + columns)

    def squared_distance_at(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Squared Euclidean distances of some pairs of unit vectors."""
        return squared_distance_of(self.similarity_at(rows, columns))

    def distance_at(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Euclidean distances of some pairs of unit vectors."""
        return distance_of(self.similarity_at(rows, columns))

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
        return row_counts(self.same) - int(self.is_self)

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
            raise BatchError("pairs hold their labels and reference set already", hint="Use loss(pairs).")
        return embeddings
    if labels is None:
        raise BatchError("embeddings come without labels", hint="Use loss(embeddings, labels) or loss(pairs).")
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
            hint="Use a lower learning rate or gradient clipping, and check the inputs of the batch.",
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
