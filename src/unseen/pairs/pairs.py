"""Pairs: similarities, distances and label masks of a batch, computed once and shared by miner and loss."""

from functools import cached_property

import torch
from torch import Tensor

from unseen.core.errors import BatchError
from unseen.pairs.functional import (
    ORDINARY,
    LabelMasks,
    cosines,
    distance_of,
    inner_products,
    label_masks,
    largest_coordinates,
    squared_distance_of,
    unit_vectors,
)


class Pairs:
    """All pairs of a batch (rows: anchors) with itself or with a reference set (columns).

    Everything is computed on first access and cached, in at least float32 and outside autocast. Self pairs are in no
    mask. `detached` is the same object without gradients, for miners, and shares its matrices.

    Shape:   n embeddings of width d and m columns -> matrices n x m; without a reference set m = n
    Raises:  BatchError for embeddings that are not 2-D, floating and finite, and for labels that do not fit them
    """

    def __init__(
        self, embeddings: Tensor, labels: Tensor, ref_embeddings: Tensor | None = None, ref_labels: Tensor | None = None
    ) -> None:
        self.embeddings, self._largest, is_ordinary = _checked_embeddings("embeddings", embeddings)
        self.labels = _checked_labels("labels", labels, self.embeddings)
        if (ref_embeddings is None) != (ref_labels is None):
            raise BatchError(
                "a reference set needs embeddings and labels", hint="Pass ref_emb and ref_labels together."
            )
        self.is_self = ref_embeddings is None or (ref_embeddings is embeddings and ref_labels is labels)
        # Only then may the lengths be divided out of the products; other rows are normalised first.
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
        # A miner may compute a matrix first, under no_grad; the loss still needs its graph.
        self._records_graph = torch.is_grad_enabled()

    def __len__(self) -> int:
        """Number of anchors."""
        return self.embeddings.shape[0]

    @property
    def width(self) -> int:
        """Dimension of the embeddings."""
        return self.embeddings.shape[1]

    @cached_property
    def normalized(self) -> Tensor:
        """Unit-length embeddings (zero vectors stay zero)."""
        with torch.set_grad_enabled(self._records_graph):
            return unit_vectors(self.embeddings, self._largest)

    @cached_property
    def ref_normalized(self) -> Tensor:
        """Unit-length reference embeddings; those of the batch if there is no reference set."""
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

    @cached_property
    def _masks(self) -> LabelMasks:
        return label_masks(self.labels, self.ref_labels, is_self=self.is_self)

    @property
    def same(self) -> Tensor:
        """Where labels are equal, self pairs included."""
        return self._masks.same

    @property
    def positive(self) -> Tensor:
        """Where labels are equal, without self pairs."""
        return self._masks.positive

    @property
    def negative(self) -> Tensor:
        """Where labels differ."""
        return self._masks.negative

    @property
    def positive_count(self) -> Tensor:
        """Number of positives of each anchor."""
        return self._masks.positive_count

    @property
    def negative_count(self) -> Tensor:
        """Number of negatives of each anchor."""
        return self._masks.negative_count

    @cached_property
    def detached(self) -> "Pairs":
        """The same pairs without gradients, for miners; shares all matrices and masks."""
        view = object.__new__(Pairs)
        shared = ("is_self", "labels", "ref_labels", "_masks", "_largest", "_ref_largest")
        view.__dict__.update({name: getattr(self, name) for name in shared})
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
    """Pairs that the caller already built, or new ones from embeddings and labels."""
    if isinstance(embeddings, Pairs):
        if labels is not None or ref_embeddings is not None or ref_labels is not None:
            raise BatchError("Pairs already hold labels and reference set", hint="Call loss(pairs).")
        return embeddings
    if labels is None:
        raise BatchError("embeddings come without labels", hint="Call loss(embeddings, labels) or loss(pairs).")
    return Pairs(embeddings, labels, ref_embeddings, ref_labels)


def _checked_embeddings(name: str, embeddings: object) -> tuple[Tensor, Tensor, bool]:
    """The embeddings in at least float32, the largest coordinate of each row, and whether all are in `ORDINARY`."""
    if not isinstance(embeddings, Tensor) or embeddings.ndim != 2 or 0 in embeddings.shape:
        raise BatchError(f"{name} must be a tensor of n rows and d columns, both at least 1", got=_shape(embeddings))
    if not embeddings.is_floating_point():
        raise BatchError(f"{name} must be a floating-point tensor", got=embeddings.dtype)
    if embeddings.dtype not in (torch.float32, torch.float64):
        embeddings = embeddings.float()
    largest, lowest, highest = largest_coordinates(embeddings)
    if not highest < torch.inf:  # NaN neither
        broken = (~largest.isfinite()).nonzero()[:, 0].tolist()
        raise BatchError(
            f"{name}: {len(broken)} of {len(largest)} rows hold NaN or infinity, the first is row {broken[0]}",
            hint="Lower the learning rate or clip gradients, and check the inputs of the batch.",
        )
    return embeddings, largest, ORDINARY[0] <= lowest and highest <= ORDINARY[1]


def _checked_labels(name: str, labels: object, embeddings: Tensor) -> Tensor:
    if not isinstance(labels, Tensor) or labels.ndim != 1:
        raise BatchError(f"{name} must be a 1-D tensor of integers", got=_shape(labels))
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise BatchError(f"{name} must be integers", got=labels.dtype)
    if len(labels) != len(embeddings):
        raise BatchError(f"{name} must be one for each of the {len(embeddings)} embeddings", got=len(labels))
    return labels.to(embeddings.device, torch.int64)


def _shape(value: object) -> tuple[int, ...] | str:
    return tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
