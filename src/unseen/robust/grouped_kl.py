"""Grouped KL: the soft maximum of `KL` within groups of pairs: per anchor and sign, per sign, or over all."""

from typing import Literal, get_args

from unseen.core.checks import check_above, check_choice
from unseen.core.errors import ConfigError
from unseen.core.registry import uncertainty
from unseen.pairs.pair_terms import PairTerms
from unseen.robust.kl import KL, kl_rows
from unseen.robust.worst_case import WorstCase, weighted

Grouping = Literal["anchor_and_sign", "sign", "all"]


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
