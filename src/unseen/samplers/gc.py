"""GC: batches around a greedy coreset, points that cover the embeddings."""

import numpy as np

from unseen.core.checks import check_between
from unseen.core.registry import sampler
from unseen.samplers.base import ItemsByClass
from unseen.samplers.embedding_store import EmbeddingSampler


def greedy_centres(
    rows: np.ndarray, count: int, generator: np.random.Generator, *, soft_share: float = 0.0
) -> np.ndarray:
    """Return points that cover the rows: a random one, then always the one farthest from those chosen so far.

    ============  ==================================================================================
    soft_share    choose at random among the farthest rows, this share of all, instead of the farthest one
    ============  ==================================================================================

    Shape:  rows (m, d) -> (min(count, m),), distinct
    Empty:  the first of points at equal distance, also when only copies of chosen points are left
    """
    count = min(count, len(rows))
    centres = np.empty(count, dtype=np.int64)
    centres[0] = generator.integers(len(rows))
    squares = np.einsum("id,id->i", rows, rows)
    nearest = np.full(len(rows), np.inf)
    choices = max(1, round(soft_share * len(rows)))
    for number in range(1, count):
        last = centres[number - 1]
        nearest = np.minimum(nearest, np.clip(squares + squares[last] - 2 * (rows @ rows[last]), 0, None))
        nearest[centres[:number]] = -1.0  # never chosen again
        if choices == 1:
            centres[number] = np.argmax(nearest)
        else:
            farthest = np.argsort(-nearest, kind="stable")[: min(choices, len(rows) - number)]
            centres[number] = generator.choice(farthest)
    return centres


@sampler("gc")
class GreedyCoreset(EmbeddingSampler):
    """Batches of b/n images that cover the embeddings, each with n - 1 other images of its class.

    They are chosen from a random subset of the images by `greedy_centres`; two of them may be of one class. Embeddings
    are the latest ones of the run (`EmbeddingStoreBatches`).

    ================  ==============================================================================
    batch_size        b, images in a batch
    per_class         n, a chosen image and n - 1 others of its class; b is a multiple of n
    big_batch_size    images to choose from, at least b
    soft_share        choose at random among the farthest ones, this share of all; 0 for the farthest
    project           dimensions of a random projection for the comparison; None for all dimensions
    ================  ==============================================================================

    Empty:      a class repeats images once all of them are in the batch; fewer than b/n images are repeated
    Reference:  Roth et al., Revisiting Training Strategies, ICML 2020, arXiv:2002.08473 (GC)
    Differs:    the authors' code applies indices of one random subset to another, so its batches are random; its first
                distances are lengths
    """

    def __init__(
        self,
        *,
        batch_size: int = 112,
        per_class: int = 2,
        big_batch_size: int = 512,
        soft_share: float = 0.0,
        project: int | None = None,
    ) -> None:
        super().__init__(batch_size, per_class, big_batch_size, project)
        check_between("GreedyCoreset", "soft_share", soft_share, 0, 1)
        self.soft_share = soft_share

    def draw(self, rows: np.ndarray, items: ItemsByClass, generator: np.random.Generator) -> np.ndarray:
        """Return b/n centres of a random subset of the items, each followed by n - 1 other items of its class."""
        wanted, others = self.batch_size // self.per_class, self.per_class - 1
        subset = generator.permutation(len(rows))[: self.big_batch_size]
        centres = subset[greedy_centres(rows[subset], wanted, generator, soft_share=self.soft_share)]
        centres = np.resize(centres, wanted)
        order = items.shuffle(generator)
        is_centre = np.zeros(len(rows), dtype=bool)
        is_centre[centres] = True
        # Within a class, items that are not centres come first, so that centres are repeated last.
        order = order[np.argsort(items.classes[order] + 0.5 * is_centre[order], kind="stable")]
        classes = items.classes[centres]
        by_class = np.argsort(classes, kind="stable")
        rank = np.empty(wanted, dtype=np.int64)  # of a centre among those of its class
        rank[by_class] = np.arange(wanted) - np.searchsorted(classes[by_class], classes[by_class])
        within = (rank[:, None] * others + np.arange(others)) % items.counts[classes, None]
        return np.concatenate([centres[:, None], order[items.starts[classes, None] + within]], axis=1).ravel()
