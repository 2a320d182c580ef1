"""Binomial deviance loss of single pairs: a smooth hinge on the similarity."""

import math

from torch import Tensor
from torch.nn.functional import softplus

from unseen.core.checks import check_above, check_between
from unseen.core.registry import loss
from unseen.losses.base import PairLoss
from unseen.pairs.pair_terms import PairTerms, by_sign, mean_of, terms_of
from unseen.pairs.pairs import Pairs
from unseen.pairs.tuples import LossOutput, Miner, PairMasks, Triplets


def binomial_pair(pairs: Pairs, *, positive_sharpness: float, negative_sharpness: float, threshold: float) -> Tensor:
    """Binomial deviance of every pair; see `BinomialPair` for the formula."""
    sharpness = by_sign(pairs, -positive_sharpness, negative_sharpness)
    return 2 / sharpness.abs() * softplus(sharpness * (pairs.similarity - threshold), threshold=40)


@loss("binomial_pair")
class BinomialPair(PairLoss):
    r"""Binomial deviance loss: softplus of similarities around a threshold, mean over pairs.

    .. math:: \frac1{|P| + |N|} \Bigl( \sum_{(i,j) \in P} \tfrac2{a_p} \log[1 + e^{-a_p (s_{ij} - \lambda)}]
              + \sum_{(i,j) \in N} \tfrac2{a_n} \log[1 + e^{a_n (s_{ij} - \lambda)}] \Bigr)

    ========  ===============================================================================
    s_ij      cosine similarity of embeddings i and j
    P, N      chosen positive and negative pairs: those of the miner, or all
    a_p, a_n  ``positive_sharpness`` (> 0), that of positive pairs, and ``negative_sharpness`` (> 0), that of negatives
    lambda    ``threshold``, neutral similarity
    ========  ===============================================================================

    Shape:      n embeddings -> scalar of their dtype (at least float32)
    Empty:      zero connected to the graph if there is no pair
    Reference:  Yi et al., Deep Metric Learning for Person Re-Identification, ICPR 2014; its preprint is Deep Metric
                Learning for Practical Person Re-Identification, arXiv:1407.4979
    Differs:    one mean over all pairs, the form and the values that Qi et al. (arXiv:1912.11194) use
    """

    def __init__(
        self,
        *,
        positive_sharpness: float = 2.0,
        negative_sharpness: float = 40.0,
        threshold: float = 0.5,
        miner: Miner | None = None,
    ) -> None:
        super().__init__()
        check_above("BinomialPair", "positive_sharpness", positive_sharpness, 0)
        check_above("BinomialPair", "negative_sharpness", negative_sharpness, 0)
        check_between("BinomialPair", "threshold", threshold, -1, 1)
        self.positive_sharpness, self.negative_sharpness = positive_sharpness, negative_sharpness
        self.threshold, self.miner = threshold, miner

    def terms(self, pairs: Pairs) -> PairTerms:
        """Deviances of all pairs; at the threshold they are 2 log 2 / sharpness."""
        values = binomial_pair(
            pairs,
            positive_sharpness=self.positive_sharpness,
            negative_sharpness=self.negative_sharpness,
            threshold=self.threshold,
        )
        at_threshold = 2 * math.log(2)
        return terms_of(pairs, values, (at_threshold / self.positive_sharpness, at_threshold / self.negative_sharpness))

    def compute(self, pairs: Pairs, chosen: Triplets | PairMasks, key: int | None = None) -> LossOutput:
        """Mean over the chosen pairs."""
        return mean_of(pairs, self.terms(pairs), chosen)
