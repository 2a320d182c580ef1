"""Smooth AP: one minus the average precision of each query, with ranks counted by a sigmoid."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from unseen.core.checks import check_above
from unseen.core.registry import loss
from unseen.losses.calls import OverPairs
from unseen.losses.pairs import Pairs
from unseen.losses.tuples import Miner, Outcome, PairMasks, Triplets, as_masks


class _SmoothPrecision(torch.autograd.Function):
    """The value, from n x m tables for one positive of every query at a time; it leaves its gradient behind.

    Autograd would keep a table for each positive until the backward pass.
    """

    @staticmethod
    def forward(context: Any, similarity: Tensor, positive: Tensor, negative: Tensor, temperature: float) -> Tensor:
        counts = positive.sum(1)
        weight = (counts * (counts > 0).sum()).clamp(min=1).to(similarity.dtype).reciprocal()
        order = positive.to(torch.uint8).sort(dim=1, descending=True, stable=True).indices
        gradient = torch.zeros_like(similarity)
        value = similarity.new_zeros(())
        for slot in range(int(counts.max())):
            column = order[:, slot : slot + 1]
            # share[q, j]: how far j stands before the positive of this slot in the list of query q
            share = ((similarity - similarity.gather(1, column)) / temperature).sigmoid_()
            # 1 for the positive itself, less the 1/2 by which it stands before itself
            rank = (share * positive).sum(1, keepdim=True) + 0.5
            false = (share * negative).sum(1, keepdim=True)
            total = rank + false
            part = (weight * (counts > slot)).unsqueeze(1)
            value += (part * false / total).sum()
            # d(1 - rank / total): a positive ahead lowers it, a negative ahead raises it
            slope = torch.where(positive, -false, rank * negative) * (part / (temperature * total.square()))
            slope *= share.mul_(1 - share)
            gradient += slope
            gradient.scatter_add_(1, column, -slope.sum(1, keepdim=True))
        context.save_for_backward(gradient)
        return value

    @staticmethod
    @once_differentiable  # a second derivative would be wrong, so it is refused
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        return context.saved_tensors[0] * gradient, None, None, None


def smooth_ap(pairs: Pairs, chosen: PairMasks, *, temperature: float) -> Outcome:
    """One minus the smoothed average precision of the queries; formula and symbols are with `SmoothAP`."""
    value = _SmoothPrecision.apply(pairs.similarity, chosen.positive, chosen.negative, temperature)
    has_positive = chosen.positive.any(1)
    used = ((chosen.positive | chosen.negative).sum(1) * has_positive).sum()
    return Outcome(value, used, used)


@loss("smooth_ap")
class SmoothAP(OverPairs):
    r"""One minus the mean over queries of their average precision, smoothed to have a gradient.

    .. math:: 1 - \frac1{|Q|} \sum_{q \in Q} \frac1{|P_q|} \sum_{i \in P_q}
              \frac{1 + \sum_{j \in P_q, j \ne i} g_{ij}}
                   {1 + \sum_{j \in P_q, j \ne i} g_{ij} + \sum_{j \in N_q} g_{ij}}, \qquad
              g_{ij} = \frac1{1 + e^{-(s_{qj} - s_{qi}) / \tau}}

    ==========  =========================================================================
    s_qj        cosine similarity of embeddings q and j
    P_q, N_q    chosen pairs of query q, of one class and of two: the miner's, or all
    Q           queries with a positive
    tau         ``temperature`` (> 0): towards 0 the ranks, and the precision, become exact
    ==========  =========================================================================

    Shape:      n embeddings -> scalar of their dtype (at least float32), from 0 to 1
    Empty:      a query without positives is not in Q; one without negatives is perfect; zero connected to the
                graph if Q is empty
    Reference:  Brown et al., Smooth-AP: Smoothing the Path Towards Large-Scale Image Retrieval, ECCV 2020,
                arXiv:2007.12163
    Differs:    classes may have any sizes and the batch any order; a query is never among its own positives
    """

    def __init__(self, *, temperature: float = 0.01, miner: Miner | None = None) -> None:
        super().__init__()
        check_above("SmoothAP", "temperature", temperature, 0)
        self.temperature, self.miner = temperature, miner

    def outcome(self, pairs: Pairs, chosen: Triplets | PairMasks, key: int | None = None) -> Outcome:
        """The value over the chosen pairs."""
        return smooth_ap(pairs, as_masks(pairs, chosen), temperature=self.temperature)
