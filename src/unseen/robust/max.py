"""Max: all weights are allowed, so the worst case is the one hardest pair."""

import torch

from unseen.core.registry import uncertainty
from unseen.losses.pair_terms import PairTerms
from unseen.robust.worst_case import WorstCase, all_pairs, largest, weighed


@uncertainty("max")
class Max:
    r"""The largest loss of a pair.

    .. math:: F = \max_{p \in \Delta} \sum_i p_i l_i = \max_i l_i

    Primal:     the set is the whole simplex
    Gradient:   weight 1 on one hardest pair; of several equal ones any may be taken
    Empty:      0 without pairs
    Reference:  Qi et al., arXiv:1912.11194
    """

    def worst_case(self, terms: PairTerms, *, key: int | None = None) -> WorstCase:
        """All weight on the hardest pair, and its loss."""
        mask = all_pairs(terms)
        weights = torch.zeros_like(terms.values.detach()).flatten()
        return weighed(terms, weights.index_fill_(0, largest(terms, mask, 1), 1).view_as(mask) * mask)
