"""Few-shot episodes: which images of a class are its support set; the others are queries."""

from collections.abc import Mapping, Sequence

import numpy as np

from unseen.core.randomness import derive, numpy_generator

SHOTS = (2, 5, 10)
EPISODES = 10
MIN_QUERIES = 2
"""Images of a class that remain queries at least: a single one would have no positive."""


def draw_support(sizes: Mapping[str, int], *, seed: int = 0) -> dict[str, list[list[int]]]:
    """The positions of the support images for each class and episode.

    The first 2 positions are the support for 2 shots, the first 5 that for 5 shots. They follow from the seed and the
    class name alone: a class has the same support on every rung on which it tests.

    Shape:  class -> 10 episodes of at most 10 positions, so few that 2 images remain queries
    """
    support = {}
    for name, size in sizes.items():
        count = max(0, min(max(SHOTS), size - MIN_QUERIES))
        generator = numpy_generator(derive(seed, f"episodes/{name}"))
        orders = generator.permuted(np.tile(np.arange(size), (EPISODES, 1)), axis=1)
        support[name] = orders[:, :count].tolist()
    return support


def support_and_queries(
    support: Sequence[Sequence[int]], items: np.ndarray, *, shots: int, episode: int
) -> tuple[np.ndarray, np.ndarray]:
    """The support items and the query items of one class.

    Empty:  a class too small for so many shots has neither
    """
    chosen = sorted(support[episode][:shots])
    if len(chosen) < shots:
        return items[:0], items[:0]
    return items[chosen], np.delete(items, chosen)
