"""FRD: the candidate batch whose Frechet distance to a big batch is smallest."""

from functools import partial

import numpy as np

from unseen.core.registry import sampler
from unseen.samplers.candidates import best_match, check_matching
from unseen.samplers.embedding_store import EmbeddingStoreBatches


def frechet_costs(rows: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    r"""Squared Frechet distance of each candidate to all rows, both taken as Gaussians.

    .. math:: |\mu - \mu'|^2 + \operatorname{tr}(C + C') - 2 \operatorname{tr}(C C')^{1/2}

    With centred rows :math:`C = F^\top F`, the last trace is the sum of the singular values of :math:`F F'^\top`, an
    m x b matrix whose entries are products of rows: they are computed once for all candidates, and no root of a
    d x d matrix is taken.

    Shape:  rows (m, d), candidates as positions in them (k, b) -> (k,)
    Empty:  of a single row the covariance is 0
    """
    centred = (rows - rows.mean(axis=0)).astype(np.float64)
    products = centred @ centred.T
    spread = np.trace(products) / max(1, len(rows) - 1)
    costs = np.empty(len(chosen))
    for place, positions in enumerate(chosen):
        between = products[positions]
        inner = between[:, positions]
        mean = inner.mean()  # the squared length of the candidate's mean, as the big batch's is 0
        freedom = max(1, len(positions) - 1)
        cross = between - between.mean(axis=0)
        squared = np.linalg.eigvalsh(cross @ cross.T)
        overlap = np.sqrt(np.clip(squared, 0, None)).sum() / np.sqrt(freedom * max(1, len(rows) - 1))
        own_spread = (np.trace(inner) - len(positions) * mean) / freedom
        costs[place] = mean + spread + own_spread - 2 * overlap
    return costs


@sampler("frd")
class FrechetMatching:
    """Batches of b/n classes with n images each that resemble a big batch in mean and covariance.

    A big batch is drawn samples-per-class, candidate batches from it; the nearest by `frechet_costs` is taken.
    Embeddings come from the store of `EmbeddingStoreBatches`: those of the last time an image was trained on.

    ================  =====================================================================
    batch_size        b, images in a batch
    per_class         n, images of one class in a batch; b is a multiple of n
    big_batch_size    images of the big batch, at least b
    num_candidates    candidates among which is chosen
    project           compare in so many random directions; None: in all dimensions
    ================  =====================================================================

    Empty:      a class with fewer than n images repeats them; with fewer than b/n classes every batch holds all of them
    Reference:  Roth et al., Revisiting Training Strategies, ICML 2020, arXiv:2002.08473 (FRD)
    Differs:    the authors' file cannot be reached under the name they give it; without their 1e-8 I inside the root
    """

    def __init__(
        self,
        *,
        batch_size: int = 112,
        per_class: int = 2,
        big_batch_size: int = 512,
        num_candidates: int = 10,
        project: int | None = None,
    ) -> None:
        check_matching("FrechetMatching", batch_size, per_class, big_batch_size, num_candidates, project)
        self.batch_size, self.per_class = batch_size, per_class
        self.big_batch_size, self.num_candidates, self.project = big_batch_size, num_candidates, project

    def batches(self, labels: np.ndarray, seed: int) -> EmbeddingStoreBatches:
        """The batches over items with these labels; positions refer to `labels`."""
        draw = partial(
            best_match,
            batch_size=self.batch_size,
            per_class=self.per_class,
            big=self.big_batch_size,
            count=self.num_candidates,
            costs=frechet_costs,
        )
        return EmbeddingStoreBatches(labels, seed, self.batch_size, draw, project=self.project)
