"""Top-k: no pair may weigh more than 1/k, so the worst case is the mean of the k hardest pairs."""

from unseen.core.checks import check_count
from unseen.core.registry import uncertainty
from unseen.pairs.pair_terms import PairTerms
from unseen.robust.worst_case import WorstCase, all_pairs, hardest, placed, weighed


@uncertainty("top_k")
class TopK:
    r"""The mean of the k largest losses.

    .. math:: F = \max_{p \in \Delta,\ p_i \le 1/k} \sum_i p_i l_i = \tfrac1k \sum_{j \le k} l_{[j]}

    ==========  ==============================================================================================
    l_i         the losses of the unordered pairs; l_[j] is the j-th largest
    k           how many pairs share the weight (>= 1), unordered ones
    ==========  ==============================================================================================

    Primal:     weights of at most 1/k
    Gradient:   weight 1/k on each of the k hardest pairs; of equal ones at the end any may be taken
    Empty:      0 without pairs; with fewer than k the mean of all, which ``usage`` shows as active < k
    Reference:  Qi et al., A Simple and Effective Framework for Pairwise Deep Metric Learning, ECCV 2020,
                arXiv:1912.11194 (DRO-TopK)
    Differs:    ``k`` counts unordered pairs, as the paper does (160 to 280 on CUB and Cars); the authors' flag K
                stands for 2K of them. No warning when pairs are short: late in training they always are
    """

    def __init__(self, k: int = 160) -> None:
        check_count("TopK", "k", k)
        self.k = k

    def worst_case(self, terms: PairTerms, *, key: int | None = None) -> WorstCase:
        """Equal weights on the hardest pairs, and their mean."""
        positions, weights = hardest(terms, all_pairs(terms), self.k)
        return weighed(terms, placed(terms, positions, weights.div_(weights.sum().clamp(min=1))))
