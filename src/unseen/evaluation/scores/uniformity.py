"""Uniformity: how evenly the embeddings fill the unit sphere."""

import numpy as np

from unseen.core.registry import score
from unseen.evaluation.scores.base import Score
from unseen.evaluation.scores.pair_curves import PairCounts


def uniformity(counts: PairCounts, *, t: float = 2.0) -> float:
    r"""Logarithm of the mean Gaussian potential over pairs; lower is more uniform.

    .. math:: \log \operatorname{mean}_{i<j}\, e^{-t |e_i - e_j|^2}, \qquad |e_i - e_j|^2 = 2 - 2 S_{ij}

    If pairs are counted in bins, the centre of a bin stands for its pairs, which changes the value by less than 1e-7.

    Empty:      0 without a pair
    Reference:  Wang and Isola, Understanding Contrastive Representation Learning, ICML 2020, arXiv:2005.10242
    """
    pairs = counts.positives + counts.negatives
    if len(pairs) == 0:
        return 0.0
    # Relative to the largest term, so that nothing underflows for a large t.
    largest = counts.similarity[0]
    terms = np.exp(2.0 * t * (counts.similarity - largest)) * pairs
    return float(np.log(terms.sum() / pairs.sum()) - 2.0 * t * (1.0 - largest))


@score("uniformity")
class Uniformity(Score):
    """How evenly the embeddings fill the sphere, with t = 2; 0 if all are equal."""

    basis = "curves"
    higher_is_better = False
    bounds = (-8.0, 0.0)
    collapsed = 0.0
    definition = "log of the mean over pairs of exp(-2 |e_i - e_j|^2)"

    def __call__(self, counts: PairCounts) -> float:
        """One value for all pairs."""
        return min(0.0, uniformity(counts))
