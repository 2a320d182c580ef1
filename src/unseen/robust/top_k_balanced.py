"""Balanced top-k: the hardest positive pairs and as many of the hardest negative pairs."""

import torch
from torch import Tensor

from unseen.core.checks import check_count
from unseen.core.errors import ConfigError
from unseen.core.registry import uncertainty
from unseen.losses.pair_terms import PairTerms
from unseen.robust.worst_case import WorstCase, largest, weighed


@uncertainty("top_k_balanced")
class TopKBalanced:
    r"""The mean of the k/2 largest losses of positive and the k/2 largest of negative pairs.

    .. math:: F = \max_p \sum_i p_i l_i = \tfrac1k \Bigl(\sum_{j \le k/2} l^+_{[j]} + \sum_{j \le k/2} l^-_{[j]}\Bigr)

    Primal:     weights of at most 1/k that sum to 1/2 over the positive pairs and to 1/2 over the negative ones
    Gradient:   weight 1/k on each pair of the two halves
    Empty:      a kind that has only h < k/2 pairs gives all of them, the other its h hardest, and k becomes 2 h; so
                0 where one kind has no pair
    Reference:  Qi et al., arXiv:1912.11194 (DRO-TopK-PN)
    Differs:    ``k`` counts unordered pairs, as with ``TopK``; averaged, as the paper's text says, where its formula
                has the plain sum
    """

    def __init__(self, k: int = 160) -> None:
        check_count("TopKBalanced", "k", k, 2)
        if k % 2:
            raise ConfigError("TopKBalanced: k must be even, half for each kind of pair", got=k)
        self.k = k

    def worst_case(self, terms: PairTerms, *, key: int | None = None) -> WorstCase:
        """Equal weights on the hardest pairs of both kinds, and their mean."""
        positive, negative = terms.once(terms.is_positive), terms.once(terms.is_negative)
        half = torch.minimum(positive.sum(), negative.sum()).clamp(max=self.k // 2)
        weights = torch.zeros_like(terms.values.detach()).flatten()
        for mask in (positive, negative):
            self._put(weights, terms, mask, half)
        return weighed(terms, weights.view_as(positive))

    def _put(self, weights: Tensor, terms: PairTerms, mask: Tensor, half: Tensor) -> None:
        order = largest(terms, mask, self.k // 2)
        is_taken = torch.arange(len(order), device=order.device) < half
        weights.index_add_(0, order, is_taken.to(weights.dtype) / (2 * half).clamp(min=1))
