"""Smooth-AP: one minus average precision, with ranks smoothed by a sigmoid."""

import torch

from unseen.core.checks import check_above
from unseen.core.registry import loss
from unseen.losses.base import PairLoss
from unseen.pairs.functional import masked_mean, selected_columns, soft_ranks
from unseen.pairs.pair_terms import counts_of
from unseen.pairs.pairs import Pairs
from unseen.pairs.tuples import LossOutput, Miner, PairMasks, Triplets, as_masks


def smooth_ap(pairs: Pairs, chosen: PairMasks, *, temperature: float) -> LossOutput:
    """One minus the smoothed average precision of the queries; see `SmoothAP` for the formula."""
    columns, num_positives = selected_columns(chosen.positive)
    is_positive = torch.arange(columns.shape[1], device=columns.device) < num_positives.unsqueeze(1)
    positives = pairs.similarity.gather(1, columns)  # n x the largest number of positives
    # 1 for the positive itself, less the 1/2 by which it exceeds itself
    true = soft_ranks(positives, is_positive, positives, temperature=temperature) + 0.5
    false = soft_ranks(pairs.similarity, chosen.negative, positives, temperature=temperature)
    missing = (false / (true + false) * is_positive).sum(1) / num_positives.clamp(min=1)  # 1 - average precision
    is_query = num_positives > 0
    num_pairs = sum(counts_of(pairs, chosen)) * is_query
    return LossOutput(masked_mean(missing, is_query), num_pairs, num_pairs)


@loss("smooth_ap")
class SmoothAP(PairLoss):
    r"""Smooth-AP: one minus the mean average precision, with sigmoid-smoothed ranks.

    .. math:: 1 - \frac1{|Q|} \sum_{q \in Q} \frac1{|P_q|} \sum_{i \in P_q}
              \frac{1 + \sum_{j \in P_q, j \ne i} g_{ij}}
                   {1 + \sum_{j \in P_q, j \ne i} g_{ij} + \sum_{j \in N_q} g_{ij}}, \qquad
              g_{ij} = \frac1{1 + e^{-(s_{qj} - s_{qi}) / \tau}}

    ==========  =========================================================================
    s_qj        cosine similarity of embeddings q and j
    P_q, N_q    chosen positives and negatives of query q: those of the miner, or all
    Q           queries with a positive
    tau         ``temperature`` (> 0): towards 0 the ranks, and the precision, become exact
    ==========  =========================================================================

    Shape:      n embeddings -> scalar of their dtype (at least float32), from 0 to 1
    Empty:      queries without positives are skipped; one without negatives has precision 1; zero connected to the
                graph without queries
    Reference:  Brown et al., Smooth-AP: Smoothing the Path Towards Large-Scale Image Retrieval, ECCV 2020,
                arXiv:2007.12163
    Differs:    classes may have any sizes and the batch any order; a query is not its own positive
    """

    def __init__(self, *, temperature: float = 0.01, miner: Miner | None = None) -> None:
        super().__init__()
        check_above("SmoothAP", "temperature", temperature, 0)
        self.temperature, self.miner = temperature, miner

    def compute(self, pairs: Pairs, chosen: Triplets | PairMasks, key: int | None = None) -> LossOutput:
        """Loss over the chosen pairs."""
        return smooth_ap(pairs, as_masks(pairs, chosen), temperature=self.temperature)
