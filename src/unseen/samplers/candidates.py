"""Matching a big batch: of some candidate batches out of it, the one that resembles it most is taken."""

from collections.abc import Callable

import numpy as np

from unseen.core.checks import check_count
from unseen.samplers.base import ItemsByClass, check_composition, images_per_class

Costs = Callable[[np.ndarray, np.ndarray], np.ndarray]


def big_batch(items: ItemsByClass, size: int, per_class: int, generator: np.random.Generator) -> np.ndarray:
    """Positions of at most `size` distinct items, drawn samples-per-class; all items where that many were asked for.

    With fewer than size/n classes all of them are in it, and share its places evenly.
    """
    parts = images_per_class(size, per_class, len(items.counts))
    classes = generator.permutation(len(items.counts))[: len(parts)]
    kept = np.minimum(parts, items.counts[classes])
    turns = np.arange(kept.sum()) - np.repeat(np.cumsum(kept) - kept, kept)
    return items.shuffled(generator)[np.repeat(items.starts[classes], kept) + turns]


def candidates(
    items: ItemsByClass, batch_size: int, per_class: int, count: int, generator: np.random.Generator
) -> np.ndarray:
    """Batches drawn samples-per-class from these items: count x batch_size positions.

    An item stands twice in one only where its class has fewer than it must show.
    """
    parts = images_per_class(batch_size, per_class, len(items.counts))
    shown = np.arange(parts.max())[None, :] < parts[:, None]
    drawn = [generator.permutation(len(items.counts))[: len(parts)] for _ in range(count)]
    return np.stack([items.drawn(classes, int(parts.max()), generator)[shown] for classes in drawn])


def best_match(
    rows: np.ndarray,
    items: ItemsByClass,
    generator: np.random.Generator,
    *,
    batch_size: int,
    per_class: int,
    big: int,
    count: int,
    costs: Costs,
) -> np.ndarray:
    """Positions of the candidate of the smallest cost; the first among equal ones."""
    chosen = big_batch(items, big, per_class, generator)
    inside = candidates(ItemsByClass(items.classes[chosen]), batch_size, per_class, count, generator)
    return chosen[inside[np.argmin(costs(rows[chosen], inside))]]


def check_matching(
    owner: str, batch_size: int, per_class: int, big_batch_size: int, num_candidates: int, project: int | None
) -> None:
    """Refuse settings with which no candidate can be drawn from the big batch."""
    check_composition(owner, batch_size, per_class)
    check_count(owner, "big_batch_size", big_batch_size, at_least=batch_size)
    check_count(owner, "num_candidates", num_candidates)
    if project is not None:
        check_count(owner, "project", project)
