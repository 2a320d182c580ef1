"""Rho-regularization: distance-weighted triplets, some of which push an anchor away from its own class."""

import torch
from torch import Tensor

from unseen.core.checks import check_between
from unseen.core.randomness import derive, key_from_torch, torch_generator
from unseen.core.registry import miner
from unseen.miners.distance import DistanceWeighted
from unseen.pairs.pairs import Pairs, pairs_of
from unseen.pairs.tuples import Triplets


@miner("rho_distance")
class RhoDistance(DistanceWeighted):
    r"""Distance-weighted triplets with rho-regularization: a random share pushes samples of one class apart.

    .. math:: (a, p, n) \to (a, a, p) \text{ with probability } \rho, \quad p \sim U(P_a), \quad
              P(n) \propto 1/q(\max(d_{an}, c))

    ================  ==========================================================================================
    rho               ``p_switch``, the share of switched triplets (0 to 1); published runs use 0.4 or 0.35 for
                      CUB200-2011, 0.35 for CARS196 and 0.15 for SOP
    q, P_a            as in ``miners.DistanceWeighted``
    c                 ``lower_cutoff`` (in (0, 2)): nearer negatives get the weight of this distance
    ``upper_cutoff``  negatives farther than this are not drawn; None draws at any distance
    per_anchor        triplets per anchor (>= 1), drawn independently
    ================  ==========================================================================================

    A switched triplet has its anchor as positive, so that nothing is pulled together, and a sample of the same class
    as negative. With ``p_switch=0`` the triplets are those of ``miners.DistanceWeighted`` for the same key.

    Shape:      n embeddings -> triplets of per_anchor x (anchors with a positive and a negative)
    Empty:      anchors without positives or negatives are left out, switched or not
    Reference:  Roth et al., Revisiting Training Strategies and Generalization Performance in Deep Metric Learning,
                ICML 2020, arXiv:2002.08473
    Differs:    ``upper_cutoff`` as in Wu et al. (their code: None); with a separate reference set nothing is switched,
                as the anchor is not among its columns
    """

    def __init__(
        self,
        *,
        p_switch: float = 0.35,
        lower_cutoff: float = 0.5,
        upper_cutoff: float | None = 1.4,
        per_anchor: int = 1,
    ) -> None:
        check_between("RhoDistance", "p_switch", p_switch, 0, 1)
        super().__init__(lower_cutoff=lower_cutoff, upper_cutoff=upper_cutoff, per_anchor=per_anchor)
        self.p_switch = p_switch

    @torch.no_grad()
    def __call__(self, embeddings: Tensor | Pairs, labels: Tensor | None = None, *, key: int | None = None) -> Triplets:
        """The triplets of a batch, a function of embeddings, labels and key."""
        pairs = pairs_of(embeddings, labels).detached
        key = key_from_torch() if key is None else key
        triplets = super().__call__(pairs, key=key)
        if not pairs.is_self:
            return triplets
        # A separate key, so that the drawn p and n do not depend on p_switch.
        anchor, positive, negative = triplets
        numbers = torch.rand(len(anchor), generator=torch_generator(derive(key, "switch")), dtype=torch.float64)
        switched = (numbers < self.p_switch).to(anchor.device)
        return Triplets(anchor, torch.where(switched, anchor, positive), torch.where(switched, positive, negative))
