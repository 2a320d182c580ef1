"""Hinges: sums of [x]_+ over the pairs under a mask, over all triplets, and over pairs of pairs that share no class."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from unseen.pairs.functional.autograd import first_order, with_gradient
from unseen.pairs.functional.masks import as_numbers, row_counts, selected_columns

FEW_POSITIVES = 12
"""Up to so many positives per anchor, comparing all pairs with each of them is faster than a search."""

GRID = 2.0**40
"""Whether a pair of pairs is active is decided on distances rounded to 1 / GRID, integers that compare exactly."""

CLASS_STEP = 2**43
"""Larger than every rounded distance, so that one number orders by class and then by distance."""


class PairHinges(NamedTuple):
    """Sums of the hinges of the rows, 2 x n: of positives, then of negatives; and how many are above 0 (as floats)."""

    total: Tensor
    num_active: Tensor


class Hinges(NamedTuple):
    """Sum of all hinges, how many there are, and how many of them are above 0."""

    total: Tensor
    num_terms: Tensor | int
    num_active: Tensor | int


class _PairHinges(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any, values: Tensor, masks: Tensor, near: Tensor | float, far: Tensor | float, squared: bool
    ) -> tuple[Tensor, Tensor]:
        hinge = torch.stack((values - near, far - values)).relu_().mul_(as_numbers(masks, values.dtype))
        is_active = hinge.sign()
        context.shapes = [bound.shape if isinstance(bound, Tensor) else None for bound in (near, far)]
        context.save_for_backward(hinge if squared else is_active)  # the slope
        num_active = is_active.sum(2)
        context.mark_non_differentiable(num_active)
        return (hinge.square().sum(2).div_(2) if squared else hinge.sum(2)), num_active

    @staticmethod
    @first_order("pair_hinges")
    def backward(context: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        slope = context.saved_tensors[0] * gradient.unsqueeze(2)
        near, far = context.shapes
        to_near = None if near is None or not context.needs_input_grad[2] else slope[0].sum_to_size(near).neg_()
        to_far = None if far is None or not context.needs_input_grad[3] else slope[1].sum_to_size(far)
        return slope[0] - slope[1], None, to_near, to_far, None


def pair_hinges(
    distance: Tensor,
    masks: tuple[Tensor, Tensor],
    *,
    near: Tensor | float,
    far: Tensor | float,
    squared: bool = False,
) -> PairHinges:
    """Per row the sums of [d - near]_+ over positives and of [far - d]_+ over negatives, or of half the squares.

    The bounds are numbers, or tensors that broadcast with the distances and get a gradient too.
    """
    return PairHinges(*_PairHinges.apply(distance, torch.stack(masks), near, far, squared))


def triplet_hinges(distance: Tensor, positive: Tensor, negative: Tensor, margin: float) -> Hinges:
    """[d_ap - d_an + margin]_+ over all triplets that the positive and negative pairs form, in n x m memory.

    The sum is linear in the distances once it is known which triplets are active: a positive counts once for each
    negative nearer than itself plus the margin, a negative once for each such positive.
    """
    values = distance.detach()
    columns, num_positives = selected_columns(positive)  # n x the largest number of positives
    is_filled = torch.arange(columns.shape[1], device=columns.device) < num_positives.unsqueeze(1)
    bounds = values.gather(1, columns).add_(margin).masked_fill_(~is_filled, -torch.inf)
    far = torch.where(negative, values, torch.inf)
    count = _count_by_comparison if columns.shape[1] <= FEW_POSITIVES else _count_by_search
    num_nearer, num_wider = count(far, bounds)
    num_terms = (num_positives * row_counts(negative)).sum()
    num_active = num_nearer.sum()
    weights = num_wider.to(values.dtype).neg_()
    # Slots that are not filled add 0. (`put_` has no deterministic form on a GPU.)
    weights.scatter_add_(1, columns, num_nearer.to(values.dtype))
    total = (values * weights).sum() + margin * num_active.to(values.dtype)
    return Hinges(with_gradient(distance, total, weights), num_terms, num_active)


# Both return, for each bound, how many entries of its row are below it, and for each entry, how many bounds of its row
# are above it. They compare the same two rounded numbers, far < bound, so the two counts agree to the last triplet.


def _count_by_comparison(far: Tensor, bounds: Tensor) -> tuple[Tensor, Tensor]:
    wider, nearer = torch.zeros_like(far, dtype=torch.uint8), torch.empty_like(bounds, dtype=torch.int64)
    for slot in range(bounds.shape[1]):
        is_nearer = far < bounds[:, slot : slot + 1]
        torch.sum(is_nearer, 1, out=nearer[:, slot])
        wider += is_nearer
    return nearer, wider


def _count_by_search(far: Tensor, bounds: Tensor) -> tuple[Tensor, Tensor]:
    rows, width = bounds.shape
    ordered, order = bounds.sort(1)
    passed = torch.searchsorted(ordered, far, right=True)
    start = torch.arange(rows, device=far.device).unsqueeze(1) * (width + 1)
    counts = torch.bincount((passed + start).flatten(), minlength=rows * (width + 1)).view(rows, width + 1)
    # An entry that passes k bounds or fewer is below the bound of rank k (from 0).
    nearer = torch.empty_like(order).scatter_(1, order, counts.cumsum(1)[:, :width])
    return nearer, width - passed


class PairClasses(NamedTuple):
    """Class numbers, from 0, of the rows and of the columns of a matrix of pairs."""

    rows: Tensor
    columns: Tensor


def disjoint_hinges(
    distance: Tensor, positive: Tensor, negative: Tensor, classes: PairClasses, margin: float
) -> Hinges:
    """[d_ij - d_lk + margin]_+ over all positive pairs (i, j) with all negative pairs (l, k) of two other classes.

    As for triplets the sum is linear in the distances once each pair's number of active partners is known: those of
    any class, less those of the class of its row, less those of the class of its column. Needs n x n memory.
    """
    values, row_class = distance.detach(), classes.rows.unsqueeze(1)
    anchor, other = positive.nonzero(as_tuple=True)
    anchor_class = classes.rows[anchor]
    # Distances end at 2, so a bound beyond 3 is as good as 3.
    bound = ((values[anchor, other] + margin).clamp(0, 3) * GRID).long()
    reach = (values * GRID).long()
    pull, push = _active_partners(bound, torch.zeros_like(anchor), reach, torch.zeros_like(row_class), negative)
    for negative_class in (row_class, classes.columns):
        shared = _active_partners(bound, anchor_class, reach, negative_class, negative)
        pull, push = pull - shared[0], push - shared[1]
    per_class = torch.bincount(anchor_class, minlength=len(classes.rows) + len(classes.columns))
    num_terms = ((len(anchor) - per_class[row_class] - per_class[classes.columns]) * negative).sum()
    num_active = pull.sum()
    weights = -push.to(values.dtype)
    weights[anchor, other] += pull
    total = (values * weights).sum() + margin * num_active.to(values.dtype)
    return Hinges(with_gradient(distance, total, weights), num_terms, num_active)


def _active_partners(
    bound: Tensor, bound_class: Tensor, reach: Tensor, reach_class: Tensor, negative: Tensor
) -> tuple[Tensor, Tensor]:
    """For each positive its negatives of the same given class with reach < bound; for each negative its positives."""
    ordered, order = (bound_class * CLASS_STEP + bound).sort()
    first = torch.searchsorted(ordered, reach_class * CLASS_STEP + reach, right=True)
    end = torch.searchsorted(ordered, (reach_class + 1) * CLASS_STEP)
    of_negatives = (end - first) * negative
    # Sorted positives from `first` to `end` are the partners: counted at their first, then summed up to each positive.
    running = torch.bincount(first[of_negatives > 0], minlength=len(ordered)).cumsum(0)
    before = torch.searchsorted(ordered, bound_class[order] * CLASS_STEP)
    of_positives = torch.empty_like(bound)
    of_positives[order] = running - torch.cat((running.new_zeros(1), running))[before]
    return of_positives, of_negatives
