"""Masks as numbers: counts, sums and means of the entries that a boolean matrix selects, and where they are."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from unseen.pairs.functional.autograd import first_order
from unseen.pairs.functional.small import SMALL, flags, is_small

SMALL_MASK = 2**15
"""Beyond so many entries it pays to convert booleans to floats, which are summed several times faster."""


class LabelMasks(NamedTuple):
    """Where labels are equal, positive pairs (equal labels without self pairs), negative pairs, and counts by row."""

    same: Tensor
    positive: Tensor
    negative: Tensor
    positive_count: Tensor
    negative_count: Tensor


def label_masks(labels: Tensor, ref_labels: Tensor, *, is_self: bool) -> LabelMasks:
    """Masks of all pairs of integer labels; `is_self` says that row i and column i are the same sample."""
    shape = (len(labels), len(ref_labels))
    if shape[0] * shape[1] <= SMALL and is_small(labels, torch.int64):
        from unseen.pairs.kernels.masks import compare_labels

        masks, counts = torch.empty(3, *shape, dtype=torch.uint8), torch.empty(2, shape[0], dtype=torch.int64)
        rows, columns = labels.contiguous().numpy(), ref_labels.contiguous().numpy()
        compare_labels(rows, columns, is_self, masks.numpy(), counts.numpy())
        return LabelMasks(*masks.view(torch.bool).unbind(), *counts.unbind())
    # Comparing into bytes is almost twice as fast as into booleans.
    same = torch.empty(shape, dtype=torch.uint8, device=labels.device)
    same = torch.eq(labels.unsqueeze(1), ref_labels, out=same).view(torch.bool)
    positive = same.clone().fill_diagonal_(False) if is_self else same
    positive_count = row_counts(same) - int(is_self)
    return LabelMasks(same, positive, ~same, positive_count, shape[1] - int(is_self) - positive_count)


def as_numbers(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """The mask as ones and zeros; through bytes, which convert several times faster than booleans."""
    return mask.view(torch.uint8).to(dtype)


def row_counts(mask: Tensor) -> Tensor:
    """Number of selected entries per row."""
    if mask.numel() <= SMALL_MASK:
        return mask.sum(1)
    # float32 counts exactly up to 2^24.
    return as_numbers(mask, torch.float32 if mask.shape[1] <= 2**24 else torch.float64).sum(1).long()


def at_least_one(count: Tensor | int) -> Tensor | int:
    """A count that may be divided by."""
    return count.clamp(min=1) if isinstance(count, Tensor) else max(1, count)


def fill_outside(values: Tensor, mask: Tensor) -> Tensor:
    """A copy of finite values with -inf where the mask does not select; twice as fast as `torch.where`."""
    outside = as_numbers(mask, values.dtype).reciprocal_().sub_(1)  # 0 where selected, else inf
    return torch.sub(values, outside, out=outside)


def selected_columns(mask: Tensor) -> tuple[Tensor, Tensor]:
    """The columns of each row's selected entries, and how many there are.

    As many columns as the fullest row has (at least 1); rows with fewer end in zeros.
    """
    if is_small(mask, torch.bool):
        from unseen.pairs.kernels.ranks import list_columns

        counts, listed = torch.empty(len(mask), dtype=torch.int64), torch.zeros(mask.shape, dtype=torch.int64)
        list_columns(flags(mask), counts.numpy(), listed.numpy())
        return listed[:, : max(1, int(counts.max()))], counts
    counts = row_counts(mask)
    rows, columns = mask.nonzero().unbind(1)
    slots = torch.arange(len(rows), device=rows.device) - (counts.cumsum(0) - counts).index_select(0, rows)
    selected = columns.new_zeros(len(mask), max(1, int(counts.max())))
    selected[rows, slots] = columns
    return selected, counts


class _RowSums(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, values: Tensor, mask: Tensor) -> Tensor:
        numbers = as_numbers(mask, values.dtype)
        context.save_for_backward(numbers)
        return (values * numbers).sum(1)

    @staticmethod
    @first_order("masked_row_sums")
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return context.saved_tensors[0] * gradient.unsqueeze(1), None


def masked_row_sums(values: Tensor, mask: Tensor) -> Tensor:
    """Sum of the selected values of each row; the others may be anything finite."""
    return _RowSums.apply(values, mask)


def masked_sum(values: Tensor, mask: Tensor) -> Tensor:
    """Sum of the selected entries; all values must be finite."""
    return torch.dot(values.flatten(), mask.flatten().to(values.dtype))


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean of the selected entries; 0, connected to the graph, if there are none. All values must be finite."""
    return torch.dot(values.flatten(), mask.flatten() / mask.sum(dtype=values.dtype).clamp_(min=1))
