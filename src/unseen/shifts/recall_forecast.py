r"""What recall to expect at a distance: read from the rungs of a ladder, never beyond them.

Distances of groups of few classes are larger by chance, whatever the shift: means and covariances between classes are
those of the classes that happened to be drawn. To first order that part is

.. math:: c \, (1/k_1 + 1/k_2)

for groups of k_1 and k_2 classes. c is measured on random halves of the classes, and its part is taken from every
distance that is compared: what is left is `shift`, which is comparable between groups of any number of classes and,
as `corrected_distance` is, of rows.

A distance does not see how crowded classes are: warblers are hard to tell from each other wherever they lie. Their
embeddings have less `spread`, which needs no labels. How recall follows spread is measured on galleries of training
classes that are alike, unlike or random, and recalls are compared as if all galleries had the spread of deployment.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import linregress
from scipy.stats import t as student

from unseen.core.checks import check_count
from unseen.core.errors import DataError
from unseen.core.randomness import derive, numpy_generator
from unseen.evaluation.exact.neighbours import nearest_neighbours
from unseen.evaluation.frechet import class_means
from unseen.shifts.class_swaps import Labels, Values
from unseen.shifts.small_sample_distance import corrected_distance

HALVES = 3
GALLERIES = 5
ALIKE_OR_UNLIKE = 24


@dataclass(frozen=True)
class Recall:
    """Recall@1 in galleries of so many classes, the deviation between classes, and how many classes it is known of.

    ``spread`` is that of the galleries.
    """

    value: float
    deviation: float
    known: int
    spread: float


@dataclass(frozen=True)
class Crowding:
    """How recall follows the spread of a gallery: by how much, between which spreads, and how badly it is read so.

    ``slope`` is 0 where it cannot be told from that.
    """

    slope: float
    low: float
    high: float
    misfit: float


@dataclass(frozen=True)
class ScoredRung:
    """A rung as it is compared: its shift, the recall on its test classes, and that on the other side's.

    The other side lies at the same distance; how unlike the two recalls are says how much depends on which classes it
    is that lie there. None where a model was trained on them.
    """

    number: int
    distance: float
    shift: float
    recall: Recall
    other: Recall | None = None


@dataclass(frozen=True)
class Expected:
    """The recall to expect, with a 95 % interval for one gallery; None beyond the hardest rung.

    ``place`` is "below" the easiest rung (whose recall is then given), "between" two rungs, or "beyond" the hardest.
    """

    place: Literal["below", "between", "beyond"]
    near: tuple[int, ...]
    value: float | None = None
    low: float | None = None
    high: float | None = None


def chance_rate(features: NDArray[np.floating], labels: Labels, *, seed: int = 0) -> float:
    """c, so that c (1/k_1 + 1/k_2) is the mean corrected distance of random groups of k_1 and k_2 of these classes."""
    known = np.unique(labels)
    half = len(known) // 2
    found = []
    for number in range(HALVES):
        order = numpy_generator(derive(seed, "random halves", number)).permutation(known)
        is_first = np.isin(labels, order[:half])
        found.append(corrected_distance(features[is_first], features[~is_first]).value)
    return max(0.0, float(np.mean(found))) / (1 / half + 1 / (len(known) - half))


def gallery_recall(
    embeddings: NDArray[np.floating],
    labels: Labels,
    *,
    classes: int | None = None,
    per_class: int | None = None,
    draws: int = GALLERIES,
    seed: int = 0,
) -> Recall:
    """Recall@1 among so many classes of at most so many images, the mean over random galleries where there are more.

    A gallery of fewer classes, or of more images of each, is easier; so recalls are compared only in galleries of one
    size.

    Empty:   classes of a single image have nothing to find and are left out
    Raises:  DataError for fewer than two other classes
    """
    known, sizes = np.unique(labels, return_counts=True)
    known, sizes = known[sizes > 1], sizes[sizes > 1]
    count = len(known) if classes is None else min(classes, len(known))
    if count < 2:
        raise DataError("recall needs at least two classes of two images", got=count)
    hits: list[NDArray[np.float64]] = []
    spreads = []
    is_drawn = count < len(known) or (per_class is not None and per_class < sizes.max())
    for number in range(draws if is_drawn else 1):
        generator = numpy_generator(derive(seed, "galleries", number))
        chosen = generator.permutation(known)[:count]
        rows = np.flatnonzero(np.isin(labels, chosen))
        if per_class is not None:
            rows = _fewer(rows, labels, per_class, generator)
        own = np.unique(labels[rows], return_inverse=True)[1]
        right = nearest_neighbours(embeddings[rows], own, k=1).right[:, 0]
        hits.append(np.stack([np.bincount(own, right), np.bincount(own)]))
        spreads.append(spread_of(embeddings[rows]))
    value = float(np.mean([right.sum() / rows.sum() for right, rows in hits]))
    shares = np.concatenate([right / rows for right, rows in hits])
    return Recall(value, float(shares.std(ddof=1)), len(known), float(np.mean(spreads)))


def spread_of(embeddings: NDArray[np.floating]) -> float:
    """The mean squared distance of embeddings, at length 1, from their mean: within classes and between them."""
    rows = _at_length_one(embeddings)
    return float(np.square(rows).sum(axis=1).mean() - np.square(rows.mean(axis=0)).sum())


def spread_within(embeddings: NDArray[np.floating], labels: Labels) -> float:
    """The part of the spread that lies within classes: that of items from the means of their classes."""
    rows = _at_length_one(embeddings)
    own = np.unique(labels, return_inverse=True)[1]
    of_means = np.square(class_means(rows, own)).sum(axis=1)
    return float(np.square(rows).sum(axis=1).mean() - np.average(of_means, weights=np.bincount(own)))


def spread_of_fewer(spread: float, within: float, *, classes: int, fewer: int) -> float:
    """The spread that random ``fewer`` of so many classes have: the part between classes grows as 1 - 1/k."""
    return within + (spread - within) * (1 - 1 / fewer) / (1 - 1 / classes)


def _at_length_one(embeddings: NDArray[np.floating]) -> Values:
    rows = np.asarray(embeddings, np.float64)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float64).tiny)


def crowding(
    embeddings: NDArray[np.floating], labels: Labels, *, classes: int, per_class: int | None = None, seed: int = 0
) -> Crowding | None:
    """How recall follows spread over galleries of so many classes: alike, unlike, and drawn at random.

    None where there are too few other classes for galleries to differ. Classes of a single image are left out.
    """
    known, sizes = np.unique(labels, return_counts=True)
    has_others = np.isin(labels, known[sizes > 1])
    embeddings, own = embeddings[has_others], np.unique(labels[has_others], return_inverse=True)[1]
    count = int((sizes > 1).sum())
    if classes < 2 or count < max(classes + 2, round(1.2 * classes)):
        return None
    means = class_means(embeddings, own)
    found = []
    for number in range(ALIKE_OR_UNLIKE):
        generator = numpy_generator(derive(seed, "alike or unlike", number))
        order = generator.permutation(count)
        away = np.linalg.norm(means[order] - means[order[0]], axis=1)
        chosen = (order, order[np.argsort(away)], order[np.argsort(-away)])[number % 3][:classes]
        rows = np.flatnonzero(np.isin(own, chosen))
        found.append(gallery_recall(embeddings[rows], own[rows], per_class=per_class, draws=1, seed=seed))
    spreads, values = (np.array(each) for each in zip(*((each.spread, each.value) for each in found), strict=True))
    slope = 0.0
    if np.ptp(spreads) > 0:
        line = linregress(spreads, values)
        slope = float(line.slope) if line.slope > 2 * line.stderr else 0.0
    misfit = float(np.std(values - slope * spreads, ddof=2))
    return Crowding(slope, float(spreads.min()), float(spreads.max()), misfit)


def _fewer(rows: Labels, labels: Labels, most: int, generator: np.random.Generator) -> Labels:
    """At most so many of the rows of each class, drawn at random."""
    drawn = generator.permutation(rows)
    drawn = drawn[np.argsort(labels[drawn], kind="stable")]
    own = labels[drawn]
    return np.sort(drawn[np.arange(len(own)) - np.searchsorted(own, own) < most])


def expect(
    rungs: Sequence[ScoredRung],
    shift: float,
    *,
    classes: int,
    spread: float | None = None,
    crowded: Crowding | None = None,
) -> Expected:
    r"""The recall between the rungs next to a shift, linearly; nothing is extrapolated.

    With ``crowded`` every recall is first brought to the spread of deployment, as far as galleries of the training
    data reach. The interval has three parts, added in squares: that of a gallery of so many classes, how badly rungs
    are read from their neighbours (each inner rung left out in turn), and how unlike galleries at one distance and of
    one spread are: the two sides of the rungs nearby or those that ``crowded`` was read from, whichever differ more.

    Raises:  DataError for fewer than two rungs
    """
    check_count("expect", "classes", classes, at_least=2)
    if len(rungs) < 2:
        raise DataError(
            "a ladder needs at least two measured rungs", got=len(rungs), hint="Use more images of each class."
        )
    order = sorted(rungs, key=lambda rung: rung.shift)
    slope = reached = 0.0
    if crowded is not None and spread is not None:
        slope, reached = crowded.slope, float(np.clip(spread, crowded.low, crowded.high))

    def at_spread(recall: Recall) -> float:
        return recall.value + slope * (reached - recall.spread)

    places, values = (np.array(each) for each in zip(*((r.shift, at_spread(r.recall)) for r in order), strict=True))
    if shift > places[-1]:
        return Expected("beyond", (order[-1].number,))
    after = int(np.searchsorted(places, shift))
    near = order[:1] if after == 0 else order[after - 1 : after + 1]
    inner = range(1, len(order) - 1)
    missed = [values[at] - np.interp(places[at], np.delete(places, at), np.delete(values, at)) for at in inner]
    misfit = float(np.sqrt(np.mean(np.square(missed)))) if missed else 0.0
    deviation = max(rung.recall.deviation for rung in near)
    known = min(rung.recall.known for rung in near)
    unlike = [at_spread(rung.recall) - at_spread(rung.other) for rung in near if rung.other is not None]
    # Two values have half the square of their difference as variance.
    sides = float(np.mean(np.square(unlike))) / 2 if unlike else 0.0
    others = sides if crowded is None else max(sides, crowded.misfit**2)
    error = np.sqrt(deviation**2 * (1 / classes + 1 / known) + misfit**2 + others)
    half = float(student.ppf(0.975, max(1, min(classes, known) - 1)) * error)
    value = float(np.clip(np.interp(shift, places, values), 0, 1))
    numbers = tuple(rung.number for rung in near)
    return Expected(
        "below" if after == 0 else "between", numbers, value, max(0.0, value - half), min(1.0, value + half)
    )
