"""GC: a batch around points that cover the embeddings, found greedily."""

from functools import partial

import numpy as np

from unseen.core.checks import check_between, check_count
from unseen.core.registry import sampler
from unseen.samplers.base import ItemsByClass, check_composition
from unseen.samplers.embedding_store import EmbeddingStoreBatches


def greedy_centres(
    rows: np.ndarray, count: int, generator: np.random.Generator, *, soft_share: float = 0.0
) -> np.ndarray:
    """Positions of points that cover the rows: a random one, then always the one farthest from those chosen so far.

    ============  ==================================================================================
    soft_share    take one at random of this share of the rows, the farthest ones, instead of the farthest
    ============  ==================================================================================

    Shape:  rows (m, d) -> (min(count, m),), distinct
    Empty:  among points at equal distance the first is taken, also when all that is left are copies of chosen ones
    """
    count = min(count, len(rows))
    centres = np.empty(count, dtype=np.int64)
    centres[0] = generator.integers(len(rows))
    squares = np.einsum("id,id->i", rows, rows)
    nearest = np.full(len(rows), np.inf)
    choices = max(1, round(soft_share * len(rows)))
    for place in range(1, count):
        last = centres[place - 1]
        nearest = np.minimum(nearest, np.clip(squares + squares[last] - 2 * (rows @ rows[last]), 0, None))
        nearest[centres[:place]] = -1.0  # chosen points are never taken again
        if choices == 1:
            centres[place] = np.argmax(nearest)
        else:
            farthest = np.argsort(-nearest, kind="stable")[: min(choices, len(rows) - place)]
            centres[place] = generator.choice(farthest)
    return centres


def draw_around_centres(
    rows: np.ndarray,
    items: ItemsByClass,
    generator: np.random.Generator,
    *,
    batch_size: int,
    per_class: int,
    big: int,
    soft_share: float,
) -> np.ndarray:
    """Positions of b/n centres of a random part of the items, each followed by n - 1 others of its class."""
    wanted = batch_size // per_class
    part = generator.permutation(len(rows))[:big]
    centres = part[greedy_centres(rows[part], wanted, generator, soft_share=soft_share)]
    centres = np.resize(centres, wanted)
    order = items.shuffled(generator)
    is_centre = np.zeros(len(rows), dtype=bool)
    is_centre[centres] = True
    # Within its class everyone who is no centre comes first: they are dealt as mates, then the centres themselves.
    order = order[np.argsort(items.classes[order] + 0.5 * is_centre[order], kind="stable")]
    classes = items.classes[centres]
    by_class = np.argsort(classes, kind="stable")
    turn = np.empty(wanted, dtype=np.int64)
    turn[by_class] = np.arange(wanted) - np.searchsorted(classes[by_class], classes[by_class])
    places = (turn[:, None] * (per_class - 1) + np.arange(per_class - 1)) % items.counts[classes, None]
    return np.concatenate([centres[:, None], order[items.starts[classes, None] + places]], axis=1).ravel()


@sampler("gc")
class GreedyCoreset:
    """Batches of b/n points that cover the embeddings, each with n - 1 other images of its class.

    Points are chosen among a random part of the images by `greedy_centres`; two of them may be of one class. Embeddings
    come from the store of `EmbeddingStoreBatches`: those of the last time an image was trained on.

    ================  ==============================================================================
    batch_size        b, images in a batch
    per_class         n, an image that was chosen and n - 1 of its class; b is a multiple of n
    big_batch_size    images among which is chosen, at least b
    soft_share        choose at random among this share of them, the farthest; 0 always the farthest
    project           compare in so many random directions; None: in all dimensions
    ================  ==============================================================================

    Empty:      a class repeats images when the batch holds all of it already; fewer than b/n images are taken again
    Reference:  Roth et al., Revisiting Training Strategies, ICML 2020, arXiv:2002.08473 (GC)
    Differs:    the authors' code looks positions of one random part up in another, so its batches are random; its first
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
        check_composition("GreedyCoreset", batch_size, per_class)
        check_count("GreedyCoreset", "big_batch_size", big_batch_size, at_least=batch_size)
        check_between("GreedyCoreset", "soft_share", soft_share, 0, 1)
        if project is not None:
            check_count("GreedyCoreset", "project", project)
        self.batch_size, self.per_class, self.big_batch_size = batch_size, per_class, big_batch_size
        self.soft_share, self.project = soft_share, project

    def batches(self, labels: np.ndarray, seed: int) -> EmbeddingStoreBatches:
        """The batches over items with these labels; positions refer to `labels`."""
        draw = partial(
            draw_around_centres,
            batch_size=self.batch_size,
            per_class=self.per_class,
            big=self.big_batch_size,
            soft_share=self.soft_share,
        )
        return EmbeddingStoreBatches(labels, seed, self.batch_size, draw, project=self.project)
