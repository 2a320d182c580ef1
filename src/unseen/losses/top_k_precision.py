"""Top-k precision loss: swaps of negatives in the top k with positives outside."""

import torch
from torch import Tensor

from unseen.core.checks import check_above, check_count
from unseen.core.registry import loss
from unseen.losses.base import PairLoss
from unseen.pairs.pair_terms import anchors_of
from unseen.pairs.pairs import Pairs
from unseen.pairs.tuples import LossOutput, PairMasks, Triplets, as_masks

TIE = 2.0**-50
"""Subtracted per column, in float64 and times 1 + margin: breaks ties, and is below the rounding of scores."""


def top_k_terms(
    scores: Tensor, positive: Tensor, negative: Tensor, *, k: int, margin: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Loss of each query, the columns in it and their signs: 1 for N, -1 for P, 0 for padding.

    One row of scores per query; a column in neither mask is not a candidate. See `TopKPrecision` for the formula.

    Shape:  n x m, n x m, n x m -> n, n x 2 min(k, m), n x 2 min(k, m)
    """
    depth = min(k, scores.shape[1])
    with torch.no_grad():
        place = torch.arange(scores.shape[1], dtype=torch.float64, device=scores.device)
        ranking = negative.double().mul_(margin).add_(scores).sub_(place * (TIE * (1 + margin)))
        top = ranking.masked_fill_(~(positive | negative), -torch.inf).topk(depth, dim=1).indices
        # The k - n+ best negatives are in the top k of a perfect ranking too, so they may stay.
        may_stay = (k - positive.sum(1, keepdim=True)).clamp(min=0)
        is_negative = negative.gather(1, top)
        leaves = is_negative & (is_negative.cumsum(1) > may_stay)
        # As many positives enter, the best of those outside; where n+ < k these are all of them.
        outside = ranking.masked_fill_(~positive, -torch.inf).scatter_(1, top, -torch.inf).topk(depth, dim=1).indices
        enters = torch.arange(depth, device=scores.device) < leaves.sum(1, keepdim=True)
        columns = torch.cat((top, outside), 1)
        sign = torch.cat((leaves.to(scores.dtype), -enters.to(scores.dtype)), 1)
        gap = margin * leaves.sum(1).to(scores.dtype)
    return (scores.gather(1, columns) * sign).sum(1) + gap, columns, sign


def top_k_precision(pairs: Pairs, chosen: PairMasks, *, k: int, margin: float) -> LossOutput:
    """Mean over queries of the similarity gap of all necessary swaps; see `TopKPrecision` for the formula."""
    terms, _, sign = top_k_terms(pairs.similarity, chosen.positive, chosen.negative, k=k, margin=margin)
    queries = anchors_of(pairs, chosen)
    value = terms.sum() / queries.is_complete.sum().clamp(min=1)
    return LossOutput(value, queries.num_pairs * queries.is_complete, sign.count_nonzero())


@loss("top_k_precision")
class TopKPrecision(PairLoss):
    r"""Top-k precision loss: similarity gap of negatives in the top k to displaced positives.

    .. math:: \frac1{|Q|} \sum_{q \in Q} \Bigl( \gamma |N_q| + \sum_{i \in N_q} s_{qi} - \sum_{i \in P_q} s_{qi} \Bigr)

    ===========  ==============================================================================================
    s_qi         cosine similarity of query q and candidate i; every sample is a query, all others its candidates
    gamma        ``margin`` (> 0), by which the similarities of negatives are raised before ranking
    K_q          the ``k`` candidates (>= 1) that then rank highest; equal ones by their place in the batch
    N_q          negatives of K_q without the best k - n+ of all negatives, n+ the number of positives; all
                 negatives of K_q if n+ >= k
    P_q          the positives outside K_q with the highest similarity, as many as N_q holds
    Q            queries with a positive and a negative
    ===========  ==============================================================================================

    Each term is at least gamma times the number of negatives in the top k beyond the unavoidable k - n+, and 0
    once the positives that fit into the top k outrank the other negatives by gamma. With k = 1 it is
    [gamma + largest negative - largest positive]_+.

    Shape:      n embeddings -> scalar of their dtype (at least float32)
    Empty:      queries without positives or without negatives are skipped, one with at most k candidates adds 0;
                zero connected to the graph if none is left
    Reference:  Lu et al., Sampling Wisely: Deep Image Embedding by Top-k Precision Optimization, ICCV 2019
    Differs:    similarity, k and margin are our choice. It selects pairs itself and has no miner; ``indices_tuple``
                keeps only the pairs in it as candidates, and a reference set, if given, holds the candidates
    """

    miner = None

    def __init__(self, *, k: int = 5, margin: float = 0.1) -> None:
        super().__init__()
        check_count("TopKPrecision", "k", k)
        check_above("TopKPrecision", "margin", margin, 0)
        self.k, self.margin = k, margin

    def compute(self, pairs: Pairs, chosen: Triplets | PairMasks, key: int | None = None) -> LossOutput:
        """Loss over the chosen candidates."""
        return top_k_precision(pairs, as_masks(pairs, chosen), k=self.k, margin=self.margin)
