"""Margin: positives inside a boundary, negatives outside it, each by a margin; the boundary can be learnt."""

from typing import Any, Literal

import torch
from torch import Tensor, nn

from unseen.core.checks import check_at_least, check_choice, check_count
from unseen.core.errors import ConfigError
from unseen.core.registry import loss
from unseen.losses.base import PairLoss
from unseen.losses.proxies import check_classes
from unseen.pairs.functional import distance_of
from unseen.pairs.hinges import with_slopes
from unseen.pairs.pairs import Pairs
from unseen.pairs.tuples import LossOutput, Miner, PairMasks, Triplets

Normalizer = Literal["active_pairs", "active_triplets", "none"]


def margin(
    pairs: Pairs,
    chosen: Triplets | PairMasks,
    *,
    boundary: Tensor,
    margin: float,
    nu: float,
    normalizer: Normalizer,
) -> LossOutput:
    """The margin value over chosen triplets, or all that the chosen pairs form; formula with `Margin`.

    `boundary` is one number for all anchors or a vector with one for each.
    """
    is_shared = boundary.ndim == 0
    if isinstance(chosen, Triplets):
        value, is_active = _listed(pairs, chosen, boundary, margin, normalizer)
        used: Tensor | int = len(chosen.anchor)
        active = is_active.any(0)
        if nu:
            value = value + nu * (boundary * used if is_shared else boundary[chosen.anchor].sum())
    else:
        # A positive pair stands in as many triplets as its anchor has negatives, and the other way round.
        positives, negatives = chosen.positive.sum(1), chosen.negative.sum(1)
        beta = boundary if is_shared else boundary.unsqueeze(1)
        excess = pairs.distance - beta
        pull = (excess + margin).relu() * chosen.positive
        push = (margin - excess).relu() * chosen.negative
        total = (pull.sum(1) * negatives + push.sum(1) * positives).sum()
        pulled, pushed = (pull > 0).sum(1), (push > 0).sum(1)
        triplets = positives * negatives
        active = (triplets - (positives - pulled) * (negatives - pushed)).sum()
        count = (pulled * negatives + pushed * positives).sum() if normalizer == "active_pairs" else active
        used = triplets.sum()
        value = total if normalizer == "none" else total / count.clamp(min=1)
        if nu:
            value = value + nu * (boundary * used if is_shared else (boundary * triplets).sum())
    return LossOutput(value, used, active)


def _listed(
    pairs: Pairs, triplets: Triplets, boundary: Tensor, margin: float, normalizer: Normalizer
) -> tuple[Tensor, Tensor]:
    """The normalised sum of the brackets of listed triplets, and which of them (2 x triplets) are above 0."""
    places = torch.stack((triplets.positive, triplets.negative)).add_(triplets.anchor * pairs.similarity.shape[1])
    similarity = pairs.similarity.detach().take(places)
    distance = distance_of(similarity)
    beta = boundary if boundary.ndim == 0 else boundary[triplets.anchor]
    hinge = distance - beta.detach()
    hinge[1].neg_()  # positives must stay below beta, negatives above
    is_active = hinge.add_(margin).relu_() > 0
    total = hinge.sum()
    counted = is_active if normalizer == "active_pairs" else is_active.any(0)
    count = torch.ones_like(total) if normalizer == "none" else counted.sum().clamp_(min=1)
    # Slopes of the distances, -1/d and 1/d, which end where rounding takes a similarity beyond 1.
    slopes = (is_active & (similarity < 1)) / distance.mul_(count)
    slopes[0].neg_()
    value = with_slopes(total / count, pairs.similarity, places, slopes)
    if beta.requires_grad:
        # A term of value 0: beta lowers the brackets of positives and raises those of negatives.
        pressure = is_active[1].to(beta.dtype) - is_active[0].to(beta.dtype)
        value = value + ((beta - beta.detach()) * pressure).sum() / count
    return value, is_active


@loss("margin")
class Margin(PairLoss):
    r"""What positives lack to be inside a boundary and negatives outside, each by a margin.

    .. math:: \frac1{A} \sum_{(a,p,n) \in T} \bigl([d_{ap} - \beta + \gamma]_+ + [\beta - d_{an} + \gamma]_+\bigr)
              + \nu \sum_{(a,p,n) \in T} \beta

    ==============  ============================================================================================
    d               Euclidean distance of normalised embeddings
    T               the miner's triplets; without a miner all triplets of the batch
    beta            the boundary, or where learning it starts
    ``beta_mode``   the boundary is "constant", or learnt: one ("global"), or one for each class of the anchor
                    ("per_class", needs ``num_classes``)
    beta_lr         learning rate of a learnt boundary; None takes the optimiser's own. No weight decay
    gamma           ``margin`` (>= 0), which is kept on either side of the boundary
    A               ``normalizer``: brackets above 0 ("active_pairs"), triplets with at least one such bracket
                    ("active_triplets", the code of Roth et al.), or 1 ("none"); never below 1
    nu              weight of the boundary's own size (>= 0)
    ==============  ============================================================================================

    Shape:      n embeddings -> scalar of their dtype (at least float32)
    Empty:      an anchor without positives or negatives has no triplet; zero connected to the graph if none has
    Reference:  Wu et al., Sampling Matters in Deep Embedding Learning, ICCV 2017, arXiv:1706.07567
    Differs:    the boundary is constant unless ``beta_mode`` says otherwise; the paper's mining is
                ``miners.DistanceWeighted``
    Raises:     BatchError for a label outside 0 .. num_classes - 1 when each class has its boundary
    """

    def __init__(
        self,
        *,
        margin: float = 0.2,
        beta: float = 1.2,
        beta_mode: Literal["constant", "global", "per_class"] = "constant",
        beta_lr: float | None = 5e-4,
        nu: float = 0.0,
        normalizer: Normalizer = "active_pairs",
        num_classes: int | None = None,
        miner: Miner | None = None,
    ) -> None:
        super().__init__()
        check_at_least("Margin", "margin", margin, 0)
        check_at_least("Margin", "beta", beta, 0)
        check_choice("Margin", "beta_mode", beta_mode, ("constant", "global", "per_class"))
        if beta_lr is not None:
            check_at_least("Margin", "beta_lr", beta_lr, 0)
        check_at_least("Margin", "nu", nu, 0)
        check_choice("Margin", "normalizer", normalizer, ("active_pairs", "active_triplets", "none"))
        if num_classes is not None:
            check_count("Margin", "num_classes", num_classes)
        elif beta_mode == "per_class":
            raise ConfigError("Margin: a boundary for each class needs num_classes", hint="Use num_classes=....")
        self.margin, self.beta, self.beta_mode, self.beta_lr, self.nu = margin, beta, beta_mode, beta_lr, nu
        self.normalizer: Normalizer = normalizer
        self.num_classes, self.miner = num_classes, miner
        if beta_mode == "global":
            self.boundary = nn.Parameter(torch.tensor(float(beta)))
        elif beta_mode == "per_class":
            self.boundary = nn.Parameter(torch.full((num_classes,), float(beta)))

    def outcome(self, pairs: Pairs, chosen: Triplets | PairMasks, key: int | None = None) -> LossOutput:
        """The value over the chosen triplets."""
        return margin(
            pairs,
            chosen,
            boundary=self._boundary_of(pairs),
            margin=self.margin,
            nu=self.nu,
            normalizer=self.normalizer,
        )

    def own_parameters(self) -> list[dict[str, Any]]:
        """The boundary, when it is learnt."""
        if self.beta_mode == "constant":
            return []
        return [{"params": [self.boundary], "lr": self.beta_lr, "weight_decay": 0.0}]

    def _boundary_of(self, pairs: Pairs) -> Tensor:
        if self.beta_mode == "constant":
            return torch.tensor(float(self.beta), dtype=pairs.embeddings.dtype)
        boundary = self.boundary.to(pairs.embeddings.dtype)
        if self.beta_mode == "global":
            return boundary
        check_classes("Margin", pairs, len(boundary))
        return boundary[pairs.labels]
