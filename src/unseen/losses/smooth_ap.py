"""Smooth AP: one minus the average precision of each query, with ranks counted by a sigmoid."""

import torch
from torch import Tensor

from unseen.core.checks import check_above
from unseen.core.registry import loss
from unseen.losses.base import PairLoss
from unseen.pairs.functional import entries, with_gradient
from unseen.pairs.pair_terms import counts_of
from unseen.pairs.pairs import Pairs
from unseen.pairs.tuples import LossOutput, Miner, PairMasks, Triplets, as_masks


def places_of(mask: Tensor, counts: Tensor) -> Tensor:
    """The columns of each row's entries, as many as the fullest row has; rows with fewer end in zeros."""
    rows, columns = mask.nonzero().unbind(1)
    slots = torch.arange(len(rows), device=rows.device) - (counts.cumsum(0) - counts).index_select(0, rows)
    places = columns.new_zeros(len(mask), int(counts.max()))
    places[rows, slots] = columns
    return places


def smooth_ap(pairs: Pairs, chosen: PairMasks, *, temperature: float) -> LossOutput:
    """One minus the smoothed average precision of the queries; formula and symbols are with `SmoothAP`."""
    similarity = pairs.similarity.detach()
    positives, negatives = counts_of(pairs, chosen)
    has_positive = positives > 0
    weight = (positives * has_positive.sum()).clamp(min=1).to(similarity.dtype).reciprocal_()
    is_positive, is_negative = (entries(mask, similarity.dtype) for mask in chosen)
    places = places_of(chosen.positive, positives)
    slope, value = torch.zeros_like(similarity), similarity.new_zeros(())
    # n x m tables for one positive of every query at a time; autograd would keep a few for each of them.
    for slot in range(places.shape[1]):
        column = places[:, slot : slot + 1]
        # share[q, j]: how far j stands before the positive of this slot in the list of query q
        share = similarity.sub(similarity.gather(1, column)).div_(temperature).sigmoid_()
        # 1 for the positive itself, less the 1/2 by which it stands before itself
        rank = (share * is_positive).sum(1, keepdim=True).add_(0.5)
        false = (share * is_negative).sum(1, keepdim=True)
        total = rank + false
        part = (weight * (positives > slot)).unsqueeze(1)
        value += (part * false / total).sum()
        part /= total.square_().mul_(temperature)
        # d(1 - rank / total): a positive ahead lowers it, a negative ahead raises it
        moved = is_negative.mul(part * rank).addcmul_(is_positive, part.mul_(false), value=-1)
        moved *= share.addcmul_(share, share, value=-1)
        slope += moved
        slope.scatter_add_(1, column, moved.sum(1, keepdim=True).neg_())
    used = ((positives + negatives) * has_positive).sum()
    return LossOutput(with_gradient(pairs.similarity, value, slope), used, used)


@loss("smooth_ap")
class SmoothAP(PairLoss):
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

    def outcome(self, pairs: Pairs, chosen: Triplets | PairMasks, key: int | None = None) -> LossOutput:
        """The value over the chosen pairs."""
        return smooth_ap(pairs, as_masks(pairs, chosen), temperature=self.temperature)
