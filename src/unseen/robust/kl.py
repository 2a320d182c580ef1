"""KL penalty on the weights, over all pairs or within groups: hard pairs get exponentially more weight."""

from typing import Literal, get_args

import torch
from torch import Tensor

from unseen.core.checks import check_above, check_choice, check_count
from unseen.core.errors import ConfigError
from unseen.core.randomness import derive, key_from_torch, torch_generator
from unseen.core.registry import uncertainty
from unseen.pairs.functional import masked_softmax, row_counts
from unseen.pairs.pair_terms import PairTerms
from unseen.robust.worst_case import WorstCase, all_pairs, weighted

Grouping = Literal["anchor_and_sign", "sign", "all"]


def kl_rows(values: Tensor, mask: Tensor, gamma: float, pseudo: float | None = None) -> tuple[Tensor, Tensor]:
    """The worst-case weights of the masked losses of each row, and the objective per row; 0 for empty rows.

    `pseudo` is the loss of an additional pair per row, whose weight is not returned: a row then sums to less than 1.
    """
    logits = values / gamma if pseudo is None else torch.sub(values, pseudo).div_(gamma)
    log_total, weights = masked_softmax(logits, mask, with_one=pseudo is not None)
    count = row_counts(mask).double().unsqueeze(1)
    log_count = (count.clamp(min=1) if pseudo is None else count + 1).log().to(values.dtype)
    objective = log_total.sub_(log_count).mul_(gamma).add_(pseudo or 0.0).mul_(count > 0)
    return weights, objective.squeeze(1)


def sampled_frequencies(weights: Tensor, samples: int, key: int) -> Tensor:
    """The frequency of each entry in `samples` draws with replacement; 0 where all weights are 0."""
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


@uncertainty("grouped_kl")
class GroupedKL:
    r"""Softmax-weighted losses within groups of pairs, for example the positives of each anchor.

    .. math:: F = \sum_g \max_{p \in \Delta_g} \sum_{i \in g} p_i l_i - \gamma_g\, \mathrm{KL}(p\,\|\,\tfrac1{|g|})
                = \sum_g \gamma_g \bigl(\log \sum_{i \in g} e^{l_i/\gamma_g} - \log |g|\bigr)

    ====================  ============================================================================================
    g                     the groups. ``grouping`` "anchor_and_sign": the positive and the negative pairs of each
                          anchor, where a pair belongs to both its ends; "sign": all positive and all negative pairs,
                          each unordered pair once, and the mean of the two; "all": one group, which is ``KL``
    gamma_g               temperature (> 0): ``gamma_positive`` in groups of positive pairs, ``gamma_negative`` in
                          groups of negative pairs; equal for "all"
    ``pseudo_pairs``      adds a pair at the neutral similarity of the pair loss to each group: its constant loss takes
                          weight from easy pairs
    ``reduction``         over anchors: "sum", or "mean" which divides by the number of anchors, as the authors' code
    ====================  ============================================================================================

    Primal:     one simplex per group, with a KL penalty
    Gradient:   weight softmax(l / gamma_g) within each group, detached; at the reduction's scale
    Empty:      a group without pairs adds 0; per anchor also an anchor without positive or without negative pairs
    Reference:  Qi et al., A Simple and Effective Framework for Pairwise Deep Metric Learning, ECCV 2020,
                arXiv:1912.11194 (DRO-KL-G)
    Differs:    the value is F, the penalty included. With losses that are all above 0: gamma 1 has the gradient of
                ``LiftedStructure`` with its hinge active; pseudo-pairs, gamma 1/alpha and 1/beta and "mean" have that
                of ``MultiSimilarity`` without mining; losses d and -d have the weights of HAP2S
    Raises:     ConfigError for pseudo-pairs of a loss without a neutral similarity
    """

    def __init__(
        self,
        *,
        gamma_positive: float = 0.1,
        gamma_negative: float = 0.1,
        grouping: Grouping = "anchor_and_sign",
        pseudo_pairs: bool = False,
        reduction: Literal["sum", "mean"] = "sum",
    ) -> None:
        check_above("GroupedKL", "gamma_positive", gamma_positive, 0)
        check_above("GroupedKL", "gamma_negative", gamma_negative, 0)
        check_choice("GroupedKL", "grouping", grouping, get_args(Grouping))
        check_choice("GroupedKL", "pseudo_pairs", pseudo_pairs, (True, False))
        check_choice("GroupedKL", "reduction", reduction, ("sum", "mean"))
        if grouping == "all" and (gamma_positive != gamma_negative or pseudo_pairs):
            raise ConfigError(
                "GroupedKL: with grouping 'all' both gammas must be equal, without pseudo-pairs",
                got={"gamma_positive": gamma_positive, "gamma_negative": gamma_negative, "pseudo_pairs": pseudo_pairs},
                hint="Use grouping='sign'.",
            )
        self.gamma_positive, self.gamma_negative, self.pseudo_pairs = gamma_positive, gamma_negative, pseudo_pairs
        self.grouping, self.reduction = grouping, reduction

    def worst_case(self, terms: PairTerms, *, key: int | None = None) -> WorstCase:
        """Softmax weights within each group, and the objective."""
        values = terms.values.detach()
        if self.grouping == "all":
            return KL(self.gamma_positive).worst_case(terms)
        is_by_anchor = self.grouping == "anchor_and_sign"
        masks, scale = (terms.is_positive, terms.is_negative), values.new_full((1, 1), 0.5)
        if is_by_anchor:
            scale = terms.anchors().unsqueeze(1).to(values.dtype)
            if self.reduction == "mean":
                scale = scale / len(values)
        else:
            masks, values = (terms.once(masks[0]).view(1, -1), terms.once(masks[1]).view(1, -1)), values.view(1, -1)
        pseudo = self._pseudo_losses(terms)
        weights, objective = kl_rows(values, masks[0], self.gamma_positive, pseudo[0])
        others, other_objective = kl_rows(values, masks[1], self.gamma_negative, pseudo[1])
        weights = weights.add_(others).mul_(scale).view_as(terms.values)
        value = objective.add_(other_objective).mul_(scale.squeeze(1)).sum()
        return weighted(terms, weights, value, is_directed=is_by_anchor)

    def _pseudo_losses(self, terms: PairTerms) -> tuple[float | None, float | None]:
        """The losses of the positive and the negative pseudo-pair, if any."""
        if not self.pseudo_pairs:
            return None, None
        if terms.neutral is None:
            raise ConfigError(
                "GroupedKL: this pair loss has no neutral similarity for pseudo-pairs",
                hint="Use margin_pair or binomial_pair.",
            )
        return terms.neutral
