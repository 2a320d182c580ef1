"""Max: all weights are allowed, so that the hardest pair is the loss."""

from unseen.core.registry import uncertainty
from unseen.pairs.pair_terms import PairTerms
from unseen.robust.worst_case import WorstCase, all_pairs, hardest, scatter_weights, weighted


@uncertainty("max")
class Max:
    r"""The loss of the hardest pair.

    .. math:: F = \max_{p \in \Delta} \sum_i p_i l_i = \max_i l_i

    ==========  ==============================================================================================
    l_i         the losses of the unordered pairs
    ==========  ==============================================================================================

    Primal:     the whole simplex
    Gradient:   weight 1 on one hardest pair; of several equal ones any may be taken
    Empty:      0 without pairs
    Reference:  Qi et al., A Simple and Effective Framework for Pairwise Deep Metric Learning, ECCV 2020,
                arXiv:1912.11194
    Differs:    nothing
    """

    def worst_case(self, terms: PairTerms, *, key: int | None = None) -> WorstCase:
        """All weight on the hardest pair, and its loss."""
        return weighted(terms, scatter_weights(terms, *hardest(terms, all_pairs(terms), 1)))
