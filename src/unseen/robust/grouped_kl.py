"""Grouped KL: the soft maximum of `KL` within groups of pairs, by anchor and sign, by sign, or over all."""

from typing import Literal

from torch import Tensor

from unseen.core.checks import check_above, check_choice
from unseen.core.errors import ConfigError
from unseen.core.registry import uncertainty
from unseen.losses.pair_terms import PairTerms
from unseen.robust.kl import kl_rows
from unseen.robust.worst_case import WorstCase, all_pairs, weighed

Grouping = Literal["anchor_and_sign", "sign", "all"]


@uncertainty("grouped_kl")
class GroupedKL:
    r"""Losses weighed by their softmax within groups of pairs.

    .. math:: F = \sum_g \max_{p \in \Delta_g} \sum_{i \in g} p_i l_i - \gamma_g\, \mathrm{KL}(p\,\|\,\tfrac1{|g|})
                = \sum_g \gamma_g \bigl(\log \sum_{i \in g} e^{l_i/\gamma_g} - \log |g|\bigr)

    ====================  ============================================================================================
    g                     the groups. ``grouping`` "anchor_and_sign": the positive and the negative pairs of each
                          anchor, a pair counting for both its ends; "sign": all positive and all negative pairs,
                          each unordered pair once, and the mean of the two; "all": one group, which is ``KL``
    gamma_g               ``gamma_positive`` or ``gamma_negative`` (> 0); equal for "all"
    ``pseudo_pairs``      one more pair in each group, at the neutral similarity of the pair loss: its loss is a
                          constant that holds weight back from the others
    ``reduction``         over anchors: "sum", or "mean" which divides by the number of anchors, as the authors' code
    ====================  ============================================================================================

    Primal:     one simplex for each group, with a penalty
    Gradient:   weight softmax(l / gamma_g) within each group, detached; at the reduction's scale
    Empty:      a group without pairs adds 0, and by anchors also an anchor whose batch lacks one kind of pair
    Reference:  Qi et al., arXiv:1912.11194 (DRO-KL-G)
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
        check_choice("GroupedKL", "grouping", grouping, ("anchor_and_sign", "sign", "all"))
        check_choice("GroupedKL", "pseudo_pairs", pseudo_pairs, (True, False))
        check_choice("GroupedKL", "reduction", reduction, ("sum", "mean"))
        if grouping == "all" and (gamma_positive != gamma_negative or pseudo_pairs):
            raise ConfigError(
                "GroupedKL: one group of all pairs has one gamma and no pseudo-pairs",
                got={"gamma_positive": gamma_positive, "gamma_negative": gamma_negative, "pseudo_pairs": pseudo_pairs},
                use="grouping='sign'",
            )
        self.gamma_positive, self.gamma_negative, self.pseudo_pairs = gamma_positive, gamma_negative, pseudo_pairs
        self.grouping: Grouping = grouping
        self.reduction: Literal["sum", "mean"] = reduction

    def worst_case(self, terms: PairTerms, *, key: int | None = None) -> WorstCase:
        """Softmax weights within each group, and the objective."""
        values = terms.values.detach()
        is_whole = self.grouping != "anchor_and_sign"
        rows = values.view(1, -1) if is_whole else values
        weights, objective = values.new_zeros(values.shape), values.new_zeros(())
        for mask, gamma, pseudo, scale in self._groups(terms):
            found, objectives = kl_rows(rows, mask.view_as(rows), gamma, pseudo)
            weights += found.view_as(values) * scale
            objective += objectives.sum() * scale
        return weighed(terms, weights, (weights * values).sum() - objective)

    def _groups(self, terms: PairTerms) -> list[tuple[Tensor, float, float | None, float]]:
        """Mask, gamma, loss of the pseudo-pair and scale of each kind of pair."""
        if self.grouping == "all":
            return [(all_pairs(terms), self.gamma_positive, None, 1.0)]
        if self.grouping == "sign":
            masks = (terms.once(terms.is_positive), terms.once(terms.is_negative))
            scale = 0.5
        else:
            is_anchor = terms.anchors().unsqueeze(1)
            masks = (terms.is_positive & is_anchor, terms.is_negative & is_anchor)
            scale = 1.0 if self.reduction == "sum" else 1.0 / len(terms.values)
        pseudo: tuple[float | None, float | None] = (None, None)
        if self.pseudo_pairs:
            if terms.neutral is None:
                raise ConfigError(
                    "GroupedKL: this pair loss has no neutral similarity for pseudo-pairs",
                    use="margin_pair or binomial_pair",
                )
            pseudo = terms.neutral
        return [
            (masks[0], self.gamma_positive, pseudo[0], scale),
            (masks[1], self.gamma_negative, pseudo[1], scale),
        ]
