"""Margin loss: hinges on both sides of a boundary distance, which can be learned."""

from typing import Literal

import torch
from torch import Tensor, nn

from unseen.core.checks import check_at_least, check_choice, check_count
from unseen.core.errors import ConfigError
from unseen.core.registry import loss
from unseen.losses.base import PairLoss
from unseen.losses.proxies import check_classes
from unseen.pairs.functional import at_least_one, listed_pair_hinges, pair_hinges
from unseen.pairs.pair_terms import counts_of
from unseen.pairs.pairs import Pairs
from unseen.pairs.parameters import ParameterGroup
from unseen.pairs.tuples import LossOutput, Miner, PairMasks, Triplets

Normalizer = Literal["active_pairs", "active_triplets", "none"]


def margin(
    pairs: Pairs,
    chosen: Triplets | PairMasks,
    *,
    boundary: Tensor | float,
    margin: float,
    nu: float,
    normalizer: Normalizer,
) -> LossOutput:
    """Margin loss over the chosen triplets, or all that the chosen pairs form; see `Margin` for the formula.

    `boundary` is beta: a number, or a vector with one number per anchor.
    """
    if isinstance(chosen, Triplets):
        beta = boundary[chosen.anchor] if isinstance(boundary, Tensor) and boundary.ndim else boundary
        total, num_active_pairs, num_active = listed_pair_hinges(
            pairs.similarity, chosen, bounds=(beta, beta), slack=margin
        )
        num_triplets: Tensor | int = len(chosen.anchor)
        sum_of_beta = beta.sum() if isinstance(beta, Tensor) and beta.ndim else beta * num_triplets
    else:
        beta = boundary.unsqueeze(1) if isinstance(boundary, Tensor) and boundary.ndim else boundary
        hinges = pair_hinges(pairs.distance, chosen, near=beta - margin, far=beta + margin)
        # A positive pair is in as many triplets as its anchor has negatives, and the other way round.
        positives, negatives = counts_of(pairs, chosen)
        num_partners = torch.stack((negatives, positives))
        total = (hinges.total * num_partners).sum()
        active, triplets = hinges.num_active.long(), positives * negatives
        num_triplets = triplets.sum()
        num_active = num_triplets - (num_partners.flip(0) - active).prod(0).sum()
        num_active_pairs = (active * num_partners).sum()
        sum_of_beta = (boundary * triplets).sum()
    counts = {"active_pairs": num_active_pairs, "active_triplets": num_active}
    value = total if normalizer == "none" else total / at_least_one(counts[normalizer])
    return LossOutput(value + nu * sum_of_beta if nu else value, num_triplets, num_active)


@loss("margin")
class Margin(PairLoss):
    r"""Margin loss: hinges on d(a, p) and d(a, n) around a boundary, over triplets.

    .. math:: \frac1{A} \sum_{(a,p,n) \in T} \bigl([d_{ap} - \beta + \gamma]_+ + [\beta - d_{an} + \gamma]_+\bigr)
              + \nu \sum_{(a,p,n) \in T} \beta

    ==============  ============================================================================================
    d               Euclidean distance of normalised embeddings
    T               triplets of the miner, or all triplets of the batch
    beta            boundary, or its initial value if it is learned
    ``beta_mode``   the boundary is "constant", or learned: one ("global"), or one for each class of the anchor
                    ("per_class", needs ``num_classes``)
    beta_lr         learning rate of a learned boundary; None: that of the optimiser. No weight decay
    gamma           ``margin`` (>= 0), on either side of the boundary
    A               ``normalizer``: brackets above 0 ("active_pairs"), triplets with at least one such bracket
                    ("active_triplets", the code of Roth et al.), or 1 ("none"); never below 1
    nu              weight of the regulariser on the boundary (>= 0)
    ==============  ============================================================================================

    Shape:      n embeddings -> scalar of their dtype (at least float32)
    Empty:      anchors without positives or negatives have no triplet; zero connected to the graph without triplets
    Reference:  Wu et al., Sampling Matters in Deep Embedding Learning, ICCV 2017, arXiv:1706.07567
    Differs:    the boundary is constant unless ``beta_mode`` says otherwise; the paper's mining is
                ``miners.DistanceWeighted``
    Raises:     BatchError for a label outside 0 .. num_classes - 1 with ``beta_mode="per_class"``
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
            raise ConfigError("Margin: beta_mode 'per_class' needs num_classes", hint="Pass num_classes.")
        self.margin, self.beta, self.beta_mode, self.beta_lr, self.nu = margin, beta, beta_mode, beta_lr, nu
        self.normalizer: Normalizer = normalizer
        self.num_classes, self.miner = num_classes, miner
        if beta_mode == "global":
            self.boundary = nn.Parameter(torch.tensor(float(beta)))
        elif num_classes is not None and beta_mode == "per_class":
            self.boundary = nn.Parameter(torch.full((num_classes,), float(beta)))

    def compute(self, pairs: Pairs, chosen: Triplets | PairMasks, key: int | None = None) -> LossOutput:
        """Loss over the chosen triplets."""
        return margin(
            pairs, chosen, boundary=self._boundary_of(pairs), margin=self.margin, nu=self.nu, normalizer=self.normalizer
        )

    def own_parameters(self) -> list[ParameterGroup]:
        """The boundary, if it is learned."""
        if self.beta_mode == "constant":
            return []
        return [{"params": [self.boundary], "lr": self.beta_lr, "weight_decay": 0.0}]

    def _boundary_of(self, pairs: Pairs) -> Tensor | float:
        if self.beta_mode == "constant":
            return self.beta
        boundary = self.boundary.to(pairs.embeddings.dtype)
        if self.beta_mode == "global":
            return boundary
        check_classes("Margin", pairs, len(boundary))
        return boundary[pairs.labels]
