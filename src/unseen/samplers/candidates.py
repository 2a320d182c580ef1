"""Matching a big batch: of several candidate batches drawn from it, the most similar one is used."""

import numpy as np

from unseen.core.checks import check_count
from unseen.samplers.base import ItemsByClass, images_per_class
from unseen.samplers.embedding_store import EmbeddingSampler


class CandidateSampler(EmbeddingSampler):
    """Draws a big batch samples-per-class, candidates from it, and uses the candidate with the smallest cost.

    ================  =====================================================================
    batch_size        b, images in a batch
    per_class         n, images of one class in a batch; b is a multiple of n
    big_batch_size    images in the big batch, at least b
    num_candidates    candidates to choose from
    project           dimensions of a random projection for the comparison; None for all dimensions
    ================  =====================================================================

    Embeddings are the latest ones of the run (`EmbeddingStoreBatches`).

    Empty:  a class with fewer than n images repeats them; with fewer than b/n classes every batch has all of them
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
        super().__init__(batch_size, per_class, big_batch_size, project)
        check_count(type(self).__name__, "num_candidates", num_candidates)
        self.num_candidates = num_candidates

    def costs(self, rows: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """Return how much each candidate (k, b), as indices into the rows (m, d), differs from all rows: (k,)."""
        raise NotImplementedError

    def draw(self, rows: np.ndarray, items: ItemsByClass, generator: np.random.Generator) -> np.ndarray:
        """Return the indices of the candidate with the smallest cost; the first of equal ones."""
        big = big_batch(items, self.big_batch_size, self.per_class, generator)
        chosen = candidates(ItemsByClass(items.classes[big]), self, generator)
        return big[chosen[np.argmin(self.costs(rows[big], chosen))]]


def big_batch(items: ItemsByClass, size: int, per_class: int, generator: np.random.Generator) -> np.ndarray:
    """Draw at most `size` distinct items, samples-per-class.

    With fewer than size/n classes all of them are used, in equal shares.
    """
    parts = images_per_class(size, per_class, len(items.counts))
    classes = generator.permutation(len(items.counts))[: len(parts)]
    counts = np.minimum(parts, items.counts[classes])
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return items.shuffle(generator)[np.repeat(items.starts[classes], counts) + within]


def candidates(items: ItemsByClass, sampler: CandidateSampler, generator: np.random.Generator) -> np.ndarray:
    """Draw candidate batches, samples-per-class: (num_candidates, batch_size) indices.

    An item is repeated only if its class is too small.
    """
    parts = images_per_class(sampler.batch_size, sampler.per_class, len(items.counts))
    is_used = np.arange(parts.max())[None, :] < parts[:, None]
    chosen = [generator.permutation(len(items.counts))[: len(parts)] for _ in range(sampler.num_candidates)]
    return np.stack([items.draw(classes, int(parts.max()), generator)[is_used] for classes in chosen])
