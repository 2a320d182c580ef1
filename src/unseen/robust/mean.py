"""Mean: the uniform weights alone, whose worst case is the average loss."""

from unseen.core.registry import uncertainty
from unseen.pairs.functional import as_numbers
from unseen.pairs.pair_terms import PairTerms
from unseen.robust.worst_case import WorstCase, all_pairs, weighted


@uncertainty("mean")
class Mean:
    r"""The average over all pairs: the baseline that robust objectives replace.

    .. math:: F = \tfrac1n \sum_i l_i

    ==========  ==============================================================================================
    l_i, n      the losses of the unordered pairs, and their number
    ==========  ==============================================================================================

    Primal:     the uniform weights only
    Gradient:   weight 1/n on each of the n pairs; as most pairs are negative, they dominate it
    Empty:      0 without pairs
    Reference:  Qi et al., A Simple and Effective Framework for Pairwise Deep Metric Learning, ECCV 2020,
                arXiv:1912.11194
    Differs:    nothing
    """

    def worst_case(self, terms: PairTerms, *, key: int | None = None) -> WorstCase:
        """Equal weights and the mean."""
        mask = all_pairs(terms)
        return weighted(terms, as_numbers(mask, terms.values.dtype).div_(mask.count_nonzero().clamp(min=1)))
