"""Top-k: weights of at most 1/k, so the worst case is the mean of the k hardest pairs, or of k/2 of each kind."""

import torch

from unseen.core.checks import check_count
from unseen.core.errors import ConfigError
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


@uncertainty("top_k_balanced")
class TopKBalanced:
    r"""The mean of the k/2 largest losses of positive and the k/2 largest of negative pairs.

    .. math:: F = \max_p \sum_i p_i l_i = \tfrac1k \Bigl(\sum_{j \le k/2} l^+_{[j]} + \sum_{j \le k/2} l^-_{[j]}\Bigr)

    ==========  ==============================================================================================
    l_i         the losses of the unordered pairs; l^+_[j], l^-_[j] are the j-th largest of each kind
    k           number of unordered pairs that share the weight (even, >= 2), half of them per kind
    ==========  ==============================================================================================

    Primal:     weights of at most 1/k that sum to 1/2 over the positive pairs and to 1/2 over the negative ones
    Gradient:   weight 1/k on each pair of the two halves
    Empty:      if one kind has only h < k/2 pairs, both kinds use their h hardest, and k becomes 2 h; 0 if one kind
                has no pair
    Reference:  Qi et al., A Simple and Effective Framework for Pairwise Deep Metric Learning, ECCV 2020,
                arXiv:1912.11194 (DRO-TopK-PN)
    Differs:    ``k`` counts unordered pairs, as with ``TopK``; averaged, as in the paper's text, where its formula has
                a sum
    """

    def __init__(self, k: int = 160) -> None:
        check_count("TopKBalanced", "k", k, 2)
        if k % 2:
            raise ConfigError("TopKBalanced: k must be even, half for each kind of pair", got=k)
        self.k = k

    def worst_case(self, terms: PairTerms, *, key: int | None = None) -> WorstCase:
        """Equal weights on the hardest pairs of both kinds, and their mean."""
        halves = [hardest(terms, terms.once(mask), self.k // 2) for mask in (terms.is_positive, terms.is_negative)]
        positions, is_pair = (torch.cat(parts) for parts in zip(*halves, strict=True))
        # As many of either kind as the scarcer kind has.
        half = torch.minimum(*(is_pair_of_kind.sum() for _, is_pair_of_kind in halves))
        rank = torch.cat([torch.arange(len(part), device=part.device) for part, _ in halves])
        weights = is_pair.mul_(rank < half).div_((2 * half).clamp_(min=1))
        return weighted(terms, scatter_weights(terms, positions, weights))
