"""Robust: the worst weighted loss of pairs over an uncertainty set of weights, instead of their plain mean."""

from typing import Any

from torch import nn

from unseen.core.checks import check_choice
from unseen.core.errors import ConfigError
from unseen.core.registry import loss
from unseen.losses.base import PairLoss
from unseen.pairs.pair_terms import PairTermLoss, PairTerms
from unseen.pairs.pairs import Pairs
from unseen.pairs.tuples import LossOutput, Miner, PairMasks, Triplets, as_masks
from unseen.robust.worst_case import Uncertainty


def robust(terms: PairTerms, uncertainty: Uncertainty, *, remove_zero: bool, key: int | None) -> LossOutput:
    """The worst case over the set, and how many unordered pairs there were and weigh; formula with `Robust`."""
    worst = uncertainty.worst_case(terms.without_zeros() if remove_zero else terms, key=key)
    is_weighed = worst.weights.bool()
    if worst.is_directed:
        is_weighed = terms._replace(is_symmetric=False).once(is_weighed)
    return LossOutput(worst.value, terms.total(), is_weighed.count_nonzero())


@loss("robust")
class Robust(PairLoss):
    r"""The largest weighted loss of pairs over an uncertainty set of weights.

    .. math:: F = \max_{p \in U} \sum_{i < j} p_{ij} l_{ij} - R(p), \qquad
              \nabla F = \sum_{i < j} p^*_{ij} \nabla l_{ij}

    ===============  ============================================================================================
    l_ij             the losses of ``pair_loss``: ``BinomialPair``, ``MarginPair``, ``ContrastivePair``, or any loss
                     with ``terms(pairs) -> PairTerms``. Its miner, if it has one, chooses the pairs
    U, R             ``uncertainty``, the set and its penalty: ``Mean``, ``Max``, ``TopK``, ``TopKBalanced``, ``KL``,
                     ``ChiSquare``, ``GroupedKL``
    p*               the worst weights, detached
    ``remove_zero``  pairs with a loss of exactly 0 are left out before the weights are found
    ===============  ============================================================================================

    Shape:      n embeddings -> scalar of their dtype (at least float32)
    Empty:      zero connected to the graph if there is no pair, or none with a loss above 0
    Reference:  Qi et al., A Simple and Effective Framework for Pairwise Deep Metric Learning, ECCV 2020,
                arXiv:1912.11194
    Differs:    each unordered pair of a batch counts once (the authors' code counts it twice), so a k is the paper's;
                a pair chosen by a miner in either order is chosen. With a reference set every row-column pair counts
    Raises:     ConfigError for a loss that does not give its terms
    """

    def __init__(self, pair_loss: PairTermLoss, uncertainty: Uncertainty, *, remove_zero: bool = True) -> None:
        super().__init__()
        if not (isinstance(pair_loss, nn.Module) and hasattr(pair_loss, "terms")):
            raise ConfigError(
                "Robust: pair_loss must be a loss that gives the terms of its pairs",
                got=type(pair_loss).__name__,
                hint="Use binomial_pair, margin_pair or contrastive_pair.",
            )
        if not hasattr(uncertainty, "worst_case"):
            raise ConfigError(
                "Robust: uncertainty must be an uncertainty set",
                got=type(uncertainty).__name__,
                hint="Use one of unseen.robust, for example KL(gamma=0.1).",
            )
        check_choice("Robust", "remove_zero", remove_zero, (True, False))
        self.pair_loss: Any = pair_loss
        self.uncertainty, self.remove_zero = uncertainty, remove_zero

    @property
    def miner(self) -> Miner | None:  # type: ignore[override]
        """The miner of the pair loss."""
        return self.pair_loss.miner

    def compute(self, pairs: Pairs, chosen: Triplets | PairMasks, key: int | None = None) -> LossOutput:
        """The worst case over the chosen pairs; pairs are counted unordered."""
        terms = self.pair_loss.terms(pairs).chosen(as_masks(pairs, chosen))
        return robust(terms, self.uncertainty, remove_zero=self.remove_zero, key=key)

    def own_parameters(self) -> list[dict[str, Any]]:
        """The parameters of the pair loss."""
        return self.pair_loss.own_parameters()
