"""Hinges: sums of hinges over listed triplets and over all of a batch, with their slopes written down, not traced."""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from unseen.pairs.tuples import PairMasks

FEW = 12
"""Up to so many positives an anchor, a comparison of all pairs for each of them is faster than a search."""


class AllTriplets(NamedTuple):
    """The sum of the hinges over all triplets, how many triplets there are, and how many are above 0."""

    total: Tensor
    used: Tensor
    active: Tensor


def with_slopes(value: Tensor, matrix: Tensor, places: Tensor, slopes: Tensor) -> Tensor:
    """The value, as a function also of a matrix, with these slopes at these flat places of it.

    The gradient is one sparse update. A place may occur several times: its slopes add up.
    """
    return _WithSlopes.apply(value, matrix, places, slopes)


class _WithSlopes(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, value: Tensor, matrix: Tensor, places: Tensor, slopes: Tensor) -> Tensor:
        context.save_for_backward(places, slopes)
        context.shape = matrix.shape
        return value

    @staticmethod
    @once_differentiable  # a second derivative would be wrong, so it is refused
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        places, slopes = context.saved_tensors
        return gradient, slopes.new_zeros(context.shape).put_(places, slopes * gradient, accumulate=True), None, None


def over_all(distance: Tensor, chosen: PairMasks, margin: float) -> AllTriplets:
    """The hinges [d_ap - d_an + margin]_+ over all triplets that the chosen pairs form, in n x m memory.

    The sum is linear in the distances once it is known which triplets are active: a positive counts once for each
    negative nearer than itself plus the margin, a negative once for each such positive.
    """
    with torch.no_grad():
        values, columns = distance.detach(), distance.shape[1]
        places = chosen.positive.flatten().nonzero().squeeze(1)
        rows = places.div(columns, rounding_mode="floor")
        positives = chosen.positive.sum(1)
        # Each anchor's positives side by side: n rows of as many slots as the most that an anchor has.
        width = max(1, int(positives.max()))
        slots = torch.arange(len(rows), device=rows.device) - (positives.cumsum(0) - positives)[rows] + rows * width
        bounds = values.new_full((len(positives), width), -torch.inf)
        # The one way to write to places that torch calls deterministic; no slot occurs twice.
        bounds.view(-1).index_copy_(0, slots, values.take(places).add_(margin))
        far = torch.where(chosen.negative, values, torch.inf)
        nearer, wider = (_by_comparison if width <= FEW else _by_search)(far, bounds)
        used, active = (positives * chosen.negative.sum(1)).sum(), nearer.sum()
        weights = wider.to(values.dtype).neg_().put_(places, nearer.take(slots).to(values.dtype), accumulate=True)
    return AllTriplets((distance * weights).sum() + margin * active.to(values.dtype), used, active)


# Both give, for each bound, how many of its row are below it, and for each of the row, how many bounds are above it.
# They compare the same two rounded numbers, far < bound, so the two counts agree to the last triplet.


def _by_comparison(far: Tensor, bounds: Tensor) -> tuple[Tensor, Tensor]:
    wider, nearer = torch.zeros_like(far, dtype=torch.uint8), torch.empty_like(bounds, dtype=torch.int64)
    for slot in range(bounds.shape[1]):
        is_nearer = far < bounds[:, slot : slot + 1]
        torch.sum(is_nearer, 1, out=nearer[:, slot])
        wider += is_nearer
    return nearer, wider


def _by_search(far: Tensor, bounds: Tensor) -> tuple[Tensor, Tensor]:
    rows, width = bounds.shape
    ordered, order = bounds.sort(1)
    passed = torch.searchsorted(ordered, far, right=True)
    start = torch.arange(rows, device=far.device).unsqueeze(1) * (width + 1)
    counts = torch.bincount((passed + start).flatten(), minlength=rows * (width + 1)).view(rows, width + 1)
    # The bound in place k has above it what passes k bounds or more, and the rest of its row below.
    nearer = torch.empty_like(order).scatter_(1, order, counts.cumsum(1)[:, :width])
    return nearer, width - passed
