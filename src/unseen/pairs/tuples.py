"""Tuples: the pairs or triplets of a batch that a loss uses, in the shapes of pytorch-metric-learning."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from unseen.core.errors import BatchError
from unseen.core.randomness import key_from_torch, seeded
from unseen.pairs.pairs import Pairs


class Triplets(NamedTuple):
    """Row indices of anchors and column indices of their positives and negatives, all of one length."""

    anchor: Tensor
    positive: Tensor
    negative: Tensor


class PairIndices(NamedTuple):
    """Row and column indices of the positive pairs, then of the negative pairs."""

    anchor_positive: Tensor
    positive: Tensor
    anchor_negative: Tensor
    negative: Tensor


class PairMasks(NamedTuple):
    """Chosen positive and negative pairs as two boolean matrices with a row per anchor."""

    positive: Tensor
    negative: Tensor

    def indices(self) -> PairIndices:
        """The same pairs as rows and columns."""
        return PairIndices(*self.positive.nonzero().unbind(1), *self.negative.nonzero().unbind(1))


class Miner(Protocol):
    """Selects tuples: a pure function of embeddings, labels and key.

    A miner that selects pairs may also have `masks(pairs, key) -> PairMasks`, which avoids the detour over indices.
    """

    def __call__(
        self, embeddings: Tensor | Pairs, labels: Tensor | None = None, *, key: int | None = None
    ) -> Triplets | PairIndices:
        """Tuples of this batch."""


class LossOutput(NamedTuple):
    """Value of a loss, the number of tuples or pairs in it, and how many of them have a gradient.

    A number may be a tensor, such as a mask, which stands for its sum.
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


NO_USAGE = Usage(torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64), True, 0, 0)
"""The usage of a loss that was not called yet."""


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
    """Tuples that a loss uses: those of the caller, else of the miner, else all pairs of the batch.

    Triplets stay triplets, and a repeated one counts again; pairs given by index become masks, so each counts once.
    """
    if indices_tuple is not None:
        tuples = _checked(pairs, indices_tuple)
    elif miner is None:
        return PairMasks(pairs.positive, pairs.negative)
    else:
        key = key_from_torch() if key is None else key
        masks = getattr(miner, "masks", None)
        if masks is not None:
            return masks(pairs.detached, key)
        tuples = mined(miner, pairs.detached, key)
    return tuples if isinstance(tuples, Triplets) else as_masks(pairs, tuples)


def mined(miner: Miner | nn.Module, pairs: Pairs, key: int) -> Triplets | PairIndices:
    """Tuples selected by a miner; one of pytorch-metric-learning is a module that takes tensors and no key."""
    if not isinstance(miner, nn.Module) or "key" in inspect.signature(miner.forward).parameters:
        return miner(pairs, key=key)
    reference = () if pairs.is_self else (pairs.ref_embeddings, pairs.ref_labels)
    with seeded(key):  # it draws from torch's global generators
        return _checked(pairs, miner(pairs.embeddings, pairs.labels, *reference))


def as_masks(pairs: Pairs, chosen: Triplets | PairIndices | PairMasks) -> PairMasks:
    """The pairs that occur in some tuples, as masks."""
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


def _checked(pairs: Pairs, indices_tuple: object) -> Triplets | PairIndices:
    if not isinstance(indices_tuple, (tuple, list)) or len(indices_tuple) not in (3, 4):
        got = len(indices_tuple) if isinstance(indices_tuple, (tuple, list)) else type(indices_tuple).__name__
        raise BatchError("indices_tuple must hold 3 tensors (a, p, n) or 4 (a1, p, a2, n)", got=got)
    for part in indices_tuple:
        if not isinstance(part, Tensor) or part.ndim != 1 or part.is_floating_point() or part.dtype == torch.bool:
            raise BatchError("indices_tuple must hold 1-D tensors of integers", got=type(part).__name__)
    parts = [part.to(pairs.labels.device, torch.int64) for part in indices_tuple]
    if len(parts[0]) != len(parts[1]) or len(parts[-2]) != len(parts[-1]):
        raise BatchError("the tensors of indices_tuple differ in length", got=[len(part) for part in parts])
    rows, columns = len(pairs.labels), len(pairs.ref_labels)
    limits = (rows, columns, columns) if len(parts) == 3 else (rows, columns, rows, columns)
    for part, limit in zip(parts, limits, strict=True):
        lowest, highest = map(int, part.aminmax()) if len(part) else (0, 0)
        if lowest < 0 or highest >= limit:
            raise BatchError(f"indices_tuple must point at rows 0 to {limit - 1}", got=[lowest, highest])
    return Triplets(*parts) if len(parts) == 3 else PairIndices(*parts)
