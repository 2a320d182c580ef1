"""FRD: the candidate batch with the smallest Frechet distance to a big batch."""

import numpy as np

from unseen.core.registry import sampler
from unseen.samplers.candidates import CandidateSampler


def frechet_costs(rows: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    r"""Return the squared Frechet distance of each candidate to all rows, both modelled as Gaussians.

    .. math:: |\mu - \mu'|^2 + \operatorname{tr}(C + C') - 2 \operatorname{tr}(C C')^{1/2}

    With centred rows :math:`C = F^\top F`, the last trace is the sum of the singular values of :math:`F F'^\top`, an
    m x b matrix of inner products: they are computed once for all candidates, without the root of a d x d matrix.

    Shape:  rows (m, d), candidates as indices into them (k, b) -> (k,)
    Empty:  the covariance of a single row is 0
    """
    centred = (rows - rows.mean(axis=0)).astype(np.float64)
    products = centred @ centred.T
    variance = np.trace(products) / max(1, len(rows) - 1)
    costs = np.empty(len(chosen))
    for number, indices in enumerate(chosen):
        between = products[indices]
        inner = between[:, indices]
        mean = inner.mean()  # the squared length of the candidate's mean, since the big batch has mean 0
        freedom = max(1, len(indices) - 1)
        cross = between - between.mean(axis=0)
        squared = np.linalg.eigvalsh(cross @ cross.T)
        overlap = np.sqrt(np.clip(squared, 0, None)).sum() / np.sqrt(freedom * max(1, len(rows) - 1))
        own_variance = (np.trace(inner) - len(indices) * mean) / freedom
        costs[number] = mean + variance + own_variance - 2 * overlap
    return costs


@sampler("frd")
class FrechetMatching(CandidateSampler):
    """Batches of b/n classes with n images each, with mean and covariance similar to those of a big batch.

    The candidate with the smallest `frechet_costs` is used; settings as in `CandidateSampler`.

    Reference:  Roth et al., Revisiting Training Strategies, ICML 2020, arXiv:2002.08473 (FRD)
    Differs:    the authors' code cannot select this sampler by its name; without their 1e-8 I inside the root
    """

    def costs(self, rows: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """Return the squared Frechet distance of each candidate."""
        return frechet_costs(rows, chosen)
