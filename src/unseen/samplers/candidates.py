"""Matching a big batch: of several candidate batches drawn from it, the most similar one is used."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from unseen.core.checks import check_count
from unseen.samplers.base import ItemsByClass, check_composition, images_per_class

Costs = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Matching(NamedTuple):
    """Sizes of the candidates and of the big batch they are drawn from.

    ================  ==========================================================
    batch_size        images in a batch
    per_class         images of one class in a batch
    big_batch_size    images in the big batch
    num_candidates    candidate batches to choose from
    ================  ==========================================================
    """

    batch_size: int
    per_class: int
    big_batch_size: int
    num_candidates: int

    def check(self, owner: str, project: int | None) -> None:
        """Raise `ConfigError` for settings with which no candidate can be drawn."""
        check_composition(owner, self.batch_size, self.per_class)
        check_count(owner, "big_batch_size", self.big_batch_size, at_least=self.batch_size)
        check_count(owner, "num_candidates", self.num_candidates)
        if project is not None:
            check_count(owner, "project", project)


def big_batch(items: ItemsByClass, size: int, per_class: int, generator: np.random.Generator) -> np.ndarray:
    """Draw at most `size` distinct items, samples-per-class.

    With fewer than size/n classes all of them are used, in equal shares.
    """
    parts = images_per_class(size, per_class, len(items.counts))
    classes = generator.permutation(len(items.counts))[: len(parts)]
    counts = np.minimum(parts, items.counts[classes])
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return items.shuffle(generator)[np.repeat(items.starts[classes], counts) + within]


def candidates(items: ItemsByClass, matching: Matching, generator: np.random.Generator) -> np.ndarray:
    """Draw candidate batches, samples-per-class: (num_candidates, batch_size) indices.

    An item is repeated only if its class is too small.
    """
    parts = images_per_class(matching.batch_size, matching.per_class, len(items.counts))
    is_used = np.arange(parts.max())[None, :] < parts[:, None]
    chosen = [generator.permutation(len(items.counts))[: len(parts)] for _ in range(matching.num_candidates)]
    return np.stack([items.draw(classes, int(parts.max()), generator)[is_used] for classes in chosen])


def best_match(
    rows: np.ndarray, items: ItemsByClass, generator: np.random.Generator, *, matching: Matching, costs: Costs
) -> np.ndarray:
    """Return the indices of the candidate with the smallest cost; the first of equal ones."""
    big = big_batch(items, matching.big_batch_size, matching.per_class, generator)
    drawn = candidates(ItemsByClass(items.classes[big]), matching, generator)
    return big[drawn[np.argmin(costs(rows[big], drawn))]]
