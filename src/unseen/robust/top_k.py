"""Top-k: weights of at most 1/k, so the worst case is the mean of the k hardest pairs."""

from unseen.core.checks import check_count
from unseen.core.registry import uncertainty
from unseen.pairs.pair_terms import PairTerms
from unseen.robust.worst_case import WorstCase, all_pairs, hardest, scatter_weights, weighted


@uncertainty("top_k")
class TopK:
    r"""The mean of the k largest pair losses.

    .. math:: F = \max_{p \in \Delta,\ p_i \le 1/k} \sum_i p_i l_i = \tfrac1k \sum_{j \le k} l_{[j]}

    ==========  ==============================================================================================
    l_i         the losses of the unordered pairs; l_[j] is the j-th largest
    k           number of unordered pairs that share the weight (>= 1)
    ==========  ==============================================================================================

    Primal:     weights of at most 1/k
    Gradient:   weight 1/k on each of the k hardest pairs; ties at the k-th are broken arbitrarily
    Empty:      0 without pairs; the mean of all if there are fewer than k, which ``usage`` shows as active < k
    Reference:  Qi et al., A Simple and Effective Framework for Pairwise Deep Metric Learning, ECCV 2020,
                arXiv:1912.11194 (DRO-TopK)
    Differs:    ``k`` counts unordered pairs, as the paper does (160 to 280 on CUB and Cars); the authors' flag K
                means 2K of them. There is no warning when there are fewer pairs: late in training that is normal
    """

    def __init__(self, k: int = 160) -> None:
        check_count("TopK", "k", k)
        self.k = k

    def worst_case(self, terms: PairTerms, *, key: int | None = None) -> WorstCase:
        """Equal weights on the hardest pairs, and their mean."""
        positions, weights = hardest(terms, all_pairs(terms), self.k)
        return weighted(terms, scatter_weights(terms, positions, weights.div_(weights.sum().clamp(min=1))))
