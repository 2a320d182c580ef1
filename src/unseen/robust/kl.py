"""KL penalty on the weights: hard pairs get exponentially more weight."""

import numpy as np
import torch
from torch import Tensor

from unseen.core.checks import check_above, check_count
from unseen.core.randomness import derive, key_from_torch, torch_generator
from unseen.core.registry import uncertainty
from unseen.pairs.functional import masked_softmax, row_counts
from unseen.pairs.functional.small import flags, floats, is_small
from unseen.pairs.pair_terms import PairTerms
from unseen.robust.worst_case import WorstCase, all_pairs, weighted


def kl_rows(values: Tensor, mask: Tensor, gamma: float, pseudo: float | None = None) -> tuple[Tensor, Tensor]:
    """The worst-case weights of the masked losses of each row, and the objective per row; 0 for empty rows.

    `pseudo` is the loss of an additional pair per row, whose weight is not returned: a row then sums to less than 1.
    """
    if is_small(values):
        from unseen.pairs.kernels.exponentials import tilt_rows

        weights, objectives = torch.empty_like(values), values.new_empty(len(values))
        settings = np.array((gamma, pseudo is not None, pseudo or 0.0), np.float32)
        tilt_rows(floats(values), flags(mask), settings, weights.numpy(), objectives.numpy())
        return weights, objectives
    logits = values / gamma if pseudo is None else torch.sub(values, pseudo).div_(gamma)
    log_total, weights = masked_softmax(logits, mask, with_one=pseudo is not None)
    count = row_counts(mask).double().unsqueeze(1)
    log_count = (count.clamp(min=1) if pseudo is None else count + 1).log().to(values.dtype)
    objective = log_total.sub_(log_count).mul_(gamma).add_(pseudo or 0.0).mul_(count > 0)
    return weights, objective.squeeze(1)


def sampled_frequencies(weights: Tensor, samples: int, key: int) -> Tensor:
    """The frequency of each entry in `samples` draws with replacement; 0 where all weights are 0."""
    if is_small(weights):
        from unseen.pairs.kernels.draws import count_draws

        numbers = torch.rand(samples, generator=torch_generator(key), dtype=torch.float64)
        frequencies = torch.zeros_like(weights)
        count_draws(floats(weights).reshape(-1), numbers.numpy(), frequencies.numpy().reshape(-1))
        return frequencies.div_(samples)
    cumulative = weights.flatten().double().cumsum(0)
    uniform = torch.rand(samples, generator=torch_generator(key), dtype=torch.float64).to(cumulative.device)
    entries = torch.searchsorted(cumulative, uniform * cumulative[-1], right=True).clamp(max=len(cumulative) - 1)
    counts = torch.bincount(entries, minlength=len(cumulative)).view_as(weights)
    return counts.to(weights.dtype) / samples * (weights > 0)


@uncertainty("kl")
class KL:
    r"""Softmax-weighted losses: a soft maximum over all pairs.

    .. math:: F = \max_{p \in \Delta} \sum_i p_i l_i - \gamma\, \mathrm{KL}(p\,\|\,\tfrac1n)
                = \gamma \bigl(\log \sum_i e^{l_i/\gamma} - \log n\bigr)

    ============  ====================================================================================
    l_i, n        the losses of the unordered pairs, and their number
    gamma         temperature (> 0): large values approach the mean, small values the maximum
    ``samples``   None uses every pair; a number draws that many pairs with replacement from the worst-case
                  weights and takes the mean of their losses, whose expected gradient is the same
    ============  ====================================================================================

    Primal:     the whole simplex, with a KL penalty
    Gradient:   weight softmax(l / gamma), detached; with ``samples`` the frequency of a pair in the draws
    Empty:      0 without pairs
    Reference:  Qi et al., A Simple and Effective Framework for Pairwise Deep Metric Learning, ECCV 2020,
                arXiv:1912.11194 (DRO-KL)
    Differs:    the value is F, the penalty included; the authors' code reports sum p l, with the same gradient, and
                one of its three variants has weights exp(l / gamma) - 1. With ``samples`` the value is the mean of the
                drawn losses
    """

    def __init__(self, gamma: float = 0.1, *, samples: int | None = None) -> None:
        check_above("KL", "gamma", gamma, 0)
        if samples is not None:
            check_count("KL", "samples", samples)
        self.gamma, self.samples = gamma, samples

    def worst_case(self, terms: PairTerms, *, key: int | None = None) -> WorstCase:
        """Softmax weights, or sampled frequencies, and the objective."""
        values = terms.values.detach()
        weights, objective = kl_rows(values.view(1, -1), all_pairs(terms).view(1, -1), self.gamma)
        weights = weights.view_as(values)
        if self.samples is None:
            return weighted(terms, weights, objective.sum())
        key = key_from_torch() if key is None else key
        return weighted(terms, sampled_frequencies(weights, self.samples, derive(key, "p-sampling")))
