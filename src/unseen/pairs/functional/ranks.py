"""Ranks and histograms with a gradient: soft counts of larger values, and soft histograms."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from unseen.pairs.functional.autograd import first_order
from unseen.pairs.functional.masks import as_numbers, fill_outside
from unseen.pairs.functional.small import flags, floats, is_small

TABLE_ENTRIES = 2**17
"""Comparisons are made for as many references at once as fill a table of this size, and for one at least."""

KEPT_ENTRIES = 2**23
"""Up to so many comparisons are kept for the gradient; more are computed again."""


class _SoftRanks(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, values: Tensor, mask: Tensor, references: Tensor, temperature: float) -> Tensor:
        context.temperature = temperature
        context.is_small = is_small(values) and values.numel() * references.shape[1] <= KEPT_ENTRIES
        if context.is_small:
            from unseen.pairs.kernels.ranks import count_larger

            shares = values.new_empty(*references.shape, values.shape[1])
            counts = torch.empty_like(references)
            level = np.float32(temperature)
            count_larger(floats(values), flags(mask), floats(references), level, shares.numpy(), counts.numpy())
            context.save_for_backward(shares)
            return counts
        selected = fill_outside(values, mask)
        comparisons = _comparisons(selected, references, temperature)
        is_kept = selected.numel() * references.shape[1] <= KEPT_ENTRIES
        kept = list(comparisons) if is_kept else []
        context.save_for_backward(selected, references, *kept)
        parts = [share.sum(2) for share in (kept if is_kept else comparisons)]
        return torch.cat(parts, 1) if len(parts) > 1 else parts[0]

    @staticmethod
    @first_order("soft_ranks")
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None, Tensor, None]:
        if context.is_small:
            from unseen.pairs.kernels.ranks import larger_slopes

            (shares,) = context.saved_tensors
            to_values, to_references = shares.new_empty(shares.shape[::2]), shares.new_empty(shares.shape[:2])
            level = np.float32(context.temperature)
            larger_slopes(floats(shares), floats(gradient), level, to_values.numpy(), to_references.numpy())
            return to_values, None, to_references, None
        selected, references, *kept = context.saved_tensors
        gradient = gradient.unsqueeze(2) / context.temperature  # n x k x 1
        to_values, to_references, done = torch.zeros_like(selected), torch.empty_like(references), 0
        for share in kept or _comparisons(selected, references, context.temperature):
            part = slice(done, done + share.shape[1])
            slope = torch.addcmul(share, share, share, value=-1).mul_(gradient[:, part])
            to_values += slope.sum(1) if share.shape[1] > 1 else slope.squeeze(1)
            torch.sum(slope, 2, out=to_references[:, part])
            done = part.stop
        return to_values, None, to_references.neg_(), None


def _comparisons(selected: Tensor, references: Tensor, temperature: float) -> Iterator[Tensor]:
    """sigmoid((value - reference) / temperature), n x some references x m, a few references at a time."""
    step = max(1, TABLE_ENTRIES // selected.numel())
    for part in references.split(step, 1):
        yield (selected.unsqueeze(1) - part.unsqueeze(2)).div_(temperature).sigmoid_()


def soft_ranks(values: Tensor, mask: Tensor, references: Tensor, *, temperature: float) -> Tensor:
    """How many selected values of a row exceed each of its references: sums of sigmoid((v - r) / temperature).

    Towards temperature 0 the counts become exact; a value equal to the reference counts 1/2.

    Shape:  n x m, n x m, n x k -> n x k
    """
    return _SoftRanks.apply(values, mask, references, temperature)


class SoftHistogram(NamedTuple):
    """Shares of the nodes (each row adds up to 1) and the number of values from a node to the next; groups x nodes."""

    heights: Tensor
    counts: Tensor


class _SoftHistogram(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, values: Tensor, num_nodes: int, *masks: Tensor) -> tuple[Tensor, Tensor]:
        position = values.clamp(-1, 1).add_(1).mul_((num_nodes - 1) / 2)
        lower = position.floor().clamp_(max=num_nodes - 2)
        share = position.sub_(lower)
        # One bin for each group and node; values of no group come last.
        for group, mask in enumerate(masks):
            lower.add_(as_numbers(mask, values.dtype), alpha=(group - len(masks)) * num_nodes)
        cell = lower.add_(len(masks) * num_nodes).long().flatten()
        size = (len(masks) + 1) * num_nodes
        counts = torch.bincount(cell, minlength=size).double()
        # In float64, as bins of a large batch sum many small numbers. No value passes the last node of its group.
        # (`bincount` with weights has no deterministic form on a GPU.)
        upper = counts.new_zeros(size).scatter_add_(0, cell, share.flatten().double())
        heights = counts - upper
        heights[1:] += upper[:-1]
        heights, counts = (table.view(-1, num_nodes)[:-1] for table in (heights, counts))
        number = counts.sum(1, keepdim=True).clamp_(min=1)
        context.save_for_backward(cell, number)
        context.like = values.shape, values.dtype
        context.mark_non_differentiable(counts)
        return heights / number, counts

    @staticmethod
    @first_order("soft_histogram")
    def backward(context: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        cell, number = context.saved_tensors
        shape, dtype = context.like
        groups, num_nodes = gradient.shape
        # Moving up, a value leaves its lower node for its upper one.
        slope = gradient.new_zeros(groups + 1, num_nodes)
        slope[:-1, :-1] = gradient.diff(dim=1) / number * ((num_nodes - 1) / 2)
        return slope.to(dtype).flatten().index_select(0, cell).view(shape), *(None,) * (groups + 1)


def soft_histogram(values: Tensor, masks: Sequence[Tensor], num_nodes: int) -> SoftHistogram:
    """A histogram for each mask over nodes from -1 to 1, with linear weights: mean of max(0, 1 - |v - node| / step).

    Values beyond -1 and 1 count as -1 and 1, and no entry may be in two masks. An empty mask has heights of 0.
    """
    return SoftHistogram(*_SoftHistogram.apply(values, num_nodes, *masks))
