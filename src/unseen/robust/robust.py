"""Distributionally robust loss: the worst-case weighted loss of pairs over an uncertainty set of weights."""

from typing import Any

from torch import nn

from unseen.core.checks import check_choice
from unseen.core.errors import ConfigError
from unseen.core.registry import loss
from unseen.losses.base import PairLoss
from unseen.pairs.pair_terms import PairTermLoss, PairTerms
from unseen.pairs.pairs import Pairs
from unseen.pairs.parameters import ParameterGroup
from unseen.pairs.tuples import LossOutput, Miner, PairMasks, Triplets, as_masks
from unseen.robust.worst_case import Uncertainty


def robust(terms: PairTerms, uncertainty: Uncertainty, *, remove_zero: bool, key: int | None) -> LossOutput:
    """The worst case over the set, the number of unordered pairs, and how many have a weight; formula in `Robust`."""
    worst = uncertainty.worst_case(terms.without_zeros() if remove_zero else terms, key=key)
    has_weight = worst.weights.bool()
    if worst.is_directed:
        has_weight = terms._replace(is_symmetric=False).once(has_weight)
    return LossOutput(worst.value, terms.total(), has_weight.count_nonzero())


@loss("robust")
class Robust(PairLoss):
    r"""Distributionally robust pair loss: worst case over an uncertainty set of weights.

    .. math:: F = \max_{p \in U} \sum_{i < j} p_{ij} l_{ij} - R(p), \qquad
              \nabla F = \sum_{i < j} p^*_{ij} \nabla l_{ij}

    ===============  ============================================================================================
    l_ij             the losses of ``pair_loss``: ``BinomialPair``, ``MarginPair``, ``ContrastivePair``, or any loss
                     with ``terms(pairs) -> PairTerms``. Its miner, if it has one, chooses the pairs
    U, R             ``uncertainty``, the set and its penalty: ``Mean``, ``Max``, ``TopK``, ``TopKBalanced``, ``KL``,
                     ``ChiSquare``, ``GroupedKL``
    p*               the worst-case weights, detached
    ``remove_zero``  leave out pairs with a loss of exactly 0 before the weights are computed
    ===============  ============================================================================================

    Shape:      n embeddings -> scalar of their dtype (at least float32)
    Empty:      a zero that is connected to the graph if there is no pair, or none with a loss above 0
    Reference:  Qi et al., A Simple and Effective Framework for Pairwise Deep Metric Learning, ECCV 2020,
                arXiv:1912.11194
    Differs:    each unordered pair of a batch counts once (the authors' code counts it twice), so k is the paper's;
                a pair that a miner chooses in either order is used. With a reference set every row-column pair counts
    Raises:     ConfigError for a loss without ``terms``
    """

    def __init__(self, pair_loss: PairTermLoss, uncertainty: Uncertainty, *, remove_zero: bool = True) -> None:
        super().__init__()
        if not (isinstance(pair_loss, nn.Module) and hasattr(pair_loss, "terms")):
            raise ConfigError(
                "Robust: pair_loss must be a loss with a value per pair (`terms`)",
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

    def own_parameters(self) -> list[ParameterGroup]:
        """The parameters of the pair loss."""
        return self.pair_loss.own_parameters()
