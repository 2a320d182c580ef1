"""Histogram: the chance that a random negative pair is more similar than a random positive one."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from unseen.core.checks import check_count
from unseen.core.registry import loss
from unseen.losses.base import PairLoss
from unseen.pairs.pairs import Pairs
from unseen.pairs.tuples import LossOutput, Miner, PairMasks, Triplets, as_masks


def soft_histogram(position: Tensor, cell: Tensor, num_nodes: int, groups: int) -> tuple[Tensor, Tensor]:
    """How much of each group falls on each node, and how many values lie between a node and the next; groups x nodes.

    A value at `position` p nodes from the first gives 1 - (p - r) to node r, the last one not above p, and p - r to
    the next. `cell` is r + num_nodes * group. In float64: bins of a large batch sum many small numbers.
    """
    size = num_nodes * groups
    cell = cell.flatten()
    counts = torch.bincount(cell, minlength=size)[:size].double()
    share = (position - cell.remainder(num_nodes).view_as(position)).flatten().double()
    upper = torch.bincount(cell, share, minlength=size)[:size]
    heights = counts - upper
    # The last cell of a group is always empty, so nothing of one group is shifted into the next.
    heights[1:] += upper[:-1]
    return heights.view(groups, num_nodes), counts.view(groups, num_nodes)


class _Overlap(torch.autograd.Function):
    """The histogram value; in a cell its slope is one number for all positives and one for all negatives."""

    @staticmethod
    def forward(
        context: Any, similarity: Tensor, positive: Tensor, negative: Tensor, num_nodes: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        position = (similarity.clamp(-1, 1) + 1) * ((num_nodes - 1) / 2)
        cell = position.long().clamp_(max=num_nodes - 2)
        # Three groups: positives, negatives and pairs that were not chosen.
        cell += torch.where(positive, 0, torch.where(negative, num_nodes, 2 * num_nodes))
        heights, counts = soft_histogram(position, cell, num_nodes, 3)
        near, far = heights[:2] / counts[:2].sum(1, keepdim=True).clamp(min=1)
        value = (far * near.cumsum(0)).sum()
        # Moving up a cell, a positive leaves the negatives of the lower node, a negative meets the positives above.
        slope = torch.zeros_like(heights)
        slope[0] = -far / counts[0].sum().clamp(min=1)
        slope[1, :-1] = near[1:] / counts[1].sum().clamp(min=1)
        slope *= (num_nodes - 1) / 2
        context.save_for_backward(slope.flatten().to(similarity.dtype), cell)
        used, active = counts[:2].sum().long(), counts[:2][slope[:2] != 0].sum().long()
        context.mark_non_differentiable(used, active)
        return value.to(similarity.dtype), used, active

    @staticmethod
    @once_differentiable  # a second derivative would be wrong, so it is refused
    def backward(context: Any, gradient: Tensor, *_: Tensor) -> tuple[Tensor, None, None, None]:
        slope, cell = context.saved_tensors
        return (slope * gradient).index_select(0, cell.flatten()).view_as(cell), None, None, None


def histogram(pairs: Pairs, chosen: PairMasks, *, num_nodes: int) -> LossOutput:
    """The overlap of the two soft histograms of similarity; formula and symbols are with `Histogram`."""
    return LossOutput(*_Overlap.apply(pairs.similarity, chosen.positive, chosen.negative, num_nodes))


@loss("histogram")
class Histogram(PairLoss):
    r"""How likely a random negative pair is at least as similar as a random positive pair.

    .. math:: \sum_{r=1}^R h^-_r \sum_{q \le r} h^+_q, \qquad
              h^\pm_r = \mathrm{mean}_{(i,j)} \max\bigl(0, 1 - |s_{ij} - t_r| / \Delta\bigr)

    =============  ==============================================================================
    s_ij           cosine similarity of embeddings i and j, clipped to -1 .. 1
    h+, h-         soft histograms over the chosen pairs of one class, of two: the miner's, or all
    t_r            nodes from -1 to 1 in steps of Delta = 2 / (R - 1)
    R              ``num_nodes`` (>= 2); it counts nodes, not the cells between them
    =============  ==============================================================================

    Shape:      n embeddings -> scalar of their dtype (at least float32), from 0 to 1
    Empty:      zero connected to the graph without a positive or without a negative pair
    Reference:  Ustinova and Lempitsky, Learning Deep Embeddings with Histogram Loss, NIPS 2016, arXiv:1611.00822
    Differs:    both orders of a pair are counted, which leaves the mean as it is; node weights are exact for every
                R, where code that compares floats finds the cell only if Delta is a power of two
    """

    def __init__(self, *, num_nodes: int = 65, miner: Miner | None = None) -> None:
        super().__init__()
        check_count("Histogram", "num_nodes", num_nodes, 2)
        self.num_nodes, self.miner = num_nodes, miner

    def outcome(self, pairs: Pairs, chosen: Triplets | PairMasks, key: int | None = None) -> LossOutput:
        """The value over the chosen pairs."""
        return histogram(pairs, as_masks(pairs, chosen), num_nodes=self.num_nodes)
