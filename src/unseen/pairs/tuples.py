"""Tuples: which pairs or triplets of a batch a loss is to use, in the shapes that pytorch-metric-learning uses too."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from unseen.core.errors import BatchError
from unseen.core.randomness import key_from_torch, seeded
from unseen.pairs.pairs import Pairs


class Triplets(NamedTuple):
    """Row numbers of anchors and column numbers of their positives and negatives, all of one length."""

    anchor: Tensor
    positive: Tensor
    negative: Tensor


class PairIndices(NamedTuple):
    """Rows and columns of the positive pairs, then rows and columns of the negative pairs."""

    anchor_positive: Tensor
    positive: Tensor
    anchor_negative: Tensor
    negative: Tensor


class PairMasks(NamedTuple):
    """The chosen positive and negative pairs as two boolean matrices, rows for anchors."""

    positive: Tensor
    negative: Tensor

    def indices(self) -> PairIndices:
        """The same pairs as rows and columns."""
        return PairIndices(*self.positive.nonzero().unbind(1), *self.negative.nonzero().unbind(1))


class Miner(Protocol):
    """Chooses tuples: a pure function of embeddings, labels and key.

    A miner whose choice is a set of pairs may also have `masks(pairs, key) -> PairMasks`, which saves the way
    over indices.
    """

    def __call__(
        self, embeddings: Tensor | Pairs, labels: Tensor | None = None, *, key: int | None = None
    ) -> Triplets | PairIndices:
        """The tuples of this batch."""


class LossOutput(NamedTuple):
    """What a loss function computed: its value, the number of tuples or pairs in it and how many of them push.

    A number may be a mask, which stands for its sum.
    """

    value: Tensor
    num_tuples: Tensor | int
    num_active: Tensor | int


@dataclass(frozen=True)
class Usage:
    """How much of its last batch a loss could use; read after `loss(...)` as `loss.usage.counts()`.

    Costs nothing until it is read: only then are labels compared and tensors, which stand for their sums, added up.

    ====================  ==========================================================================================
    ``labels``            of the anchors
    ``candidate_labels``  of the samples that they are paired with
    ``is_self``           whether the candidates include the anchors, which are not paired with themselves
    ``num_tuples``        the number of pairs, triplets or samples in the loss
    ``num_active``        how many of them have a gradient
    ====================  ==========================================================================================
    """

    labels: Tensor
    candidate_labels: Tensor
    is_self: bool
    num_tuples: Tensor | int
    num_active: Tensor | int

    def counts(self) -> dict[str, int]:
        """All counts as integers: anchors, those without positives and without negatives, tuples, active tuples."""
        same = self.labels.unsqueeze(1) == self.candidate_labels
        return {
            "anchors": len(self.labels),
            "without_positive": int((same.sum(1) <= self.is_self).sum()),
            "without_negative": int(same.all(1).sum()),
            "num_tuples": int(total(self.num_tuples)),
            "num_active": int(total(self.num_active)),
        }

    @property
    def is_empty(self) -> bool:
        """Whether nothing in the batch could be used, so that the loss was a constant 0."""
        return int(total(self.num_tuples)) == 0


def total(number: Tensor | int) -> Tensor | int:
    """A number; a tensor stands for its sum."""
    return number.sum() if isinstance(number, Tensor) and number.ndim else number


def usage_of(pairs: Pairs, output: LossOutput) -> Usage:
    """The usage of a batch, for the loss to keep; it holds on to no matrix."""
    counts = (
        number.sum() if isinstance(number, Tensor) and number.ndim > 1 else number
        for number in (output.num_tuples, output.num_active)
    )
    return Usage(pairs.labels, pairs.ref_labels, pairs.is_self, *counts)


def choose(
    pairs: Pairs, indices_tuple: Sequence[Tensor] | None, miner: Miner | None, key: int | None
) -> Triplets | PairMasks:
    """What a loss is to use: the caller's tuples, else its miner's, else all pairs of the batch.

    Triplets stay triplets, and a repeated one counts again; pairs given by index become masks, so a pair is in or out.
    """
    if indices_tuple is not None:
        found = _checked(pairs, indices_tuple)
    elif miner is None:
        return PairMasks(pairs.positive, pairs.negative)
    else:
        key = key_from_torch() if key is None else key
        masks = getattr(miner, "masks", None)
        if masks is not None:
            return masks(pairs.detached, key)
        found = mined(miner, pairs.detached, key)
    return found if isinstance(found, Triplets) else as_masks(pairs, found)


def mined(miner: Miner | nn.Module, pairs: Pairs, key: int) -> Triplets | PairIndices:
    """What a miner chooses; one of pytorch-metric-learning is a module that takes tensors and no key."""
    if not isinstance(miner, nn.Module) or "key" in inspect.signature(miner.forward).parameters:
        return miner(pairs, key=key)
    reference = () if pairs.is_self else (pairs.ref_embeddings, pairs.ref_labels)
    with seeded(key):  # it draws from torch's global generators
        return _checked(pairs, miner(pairs.embeddings, pairs.labels, *reference))


def as_masks(pairs: Pairs, chosen: Triplets | PairIndices | PairMasks) -> PairMasks:
    """The pairs that occur in a choice, as masks."""
    if isinstance(chosen, PairMasks):
        return chosen
    if isinstance(chosen, Triplets):
        chosen = PairIndices(chosen.anchor, chosen.positive, chosen.anchor, chosen.negative)
    return PairMasks(
        _mask(pairs, chosen.anchor_positive, chosen.positive), _mask(pairs, chosen.anchor_negative, chosen.negative)
    )


def _mask(pairs: Pairs, rows: Tensor, columns: Tensor) -> Tensor:
    mask = torch.zeros_like(pairs.same)
    return mask.view(-1).index_fill_(0, rows * mask.shape[1] + columns, True).view_as(mask)


def _checked(pairs: Pairs, indices_tuple: Any) -> Triplets | PairIndices:
    if not isinstance(indices_tuple, (tuple, list)) or len(indices_tuple) not in (3, 4):
        got = len(indices_tuple) if isinstance(indices_tuple, (tuple, list)) else type(indices_tuple).__name__
        raise BatchError("indices_tuple must hold 3 tensors (a, p, n) or 4 (a1, p, a2, n)", got=got)
    for part in indices_tuple:
        if not isinstance(part, Tensor) or part.ndim != 1 or part.is_floating_point() or part.dtype == torch.bool:
            raise BatchError("indices_tuple must hold 1-D tensors of whole numbers", got=type(part).__name__)
    parts = [part.to(pairs.labels.device, torch.int64) for part in indices_tuple]
    if len(parts[0]) != len(parts[1]) or len(parts[-2]) != len(parts[-1]):
        raise BatchError("the tensors of indices_tuple differ in length", got=[len(part) for part in parts])
    rows, columns = len(pairs.labels), len(pairs.ref_labels)
    limits = (rows, columns, columns) if len(parts) == 3 else (rows, columns, rows, columns)
    for part, limit in zip(parts, limits, strict=True):
        if len(part) and (part.min() < 0 or part.max() >= limit):
            reach = [int(part.min()), int(part.max())]
            raise BatchError(f"indices_tuple must point at rows 0 to {limit - 1}", got=reach)
    return Triplets(*parts) if len(parts) == 3 else PairIndices(*parts)
