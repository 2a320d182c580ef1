r"""Which recall to expect at a distance: interpolated between the rungs of a ladder, never beyond them.

Distances between groups of few classes are larger by chance, whatever the shift: means and covariances between classes
are those of the classes that happened to be drawn. To first order that part is

.. math:: c \, (1/k_1 + 1/k_2)

for groups of k_1 and k_2 classes. c is measured on random halves of the classes, and its part is subtracted from every
distance that is compared: the rest is `shift`, which is comparable between groups of any number of classes and, like
`corrected_distance`, of rows.

A distance does not see how crowded classes are: warblers are hard to tell from each other wherever they lie. Their
embeddings have less `spread`, which needs no labels. How recall depends on spread is measured on galleries of similar,
dissimilar and random training classes, and recalls are compared as if all galleries had the spread of deployment.
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
from unseen.shifts.class_swaps import Labels
from unseen.shifts.small_sample_distance import corrected_distance

HALVES = 3
GALLERIES = 5
SPREAD_GALLERIES = 24


@dataclass(frozen=True)
class Recall:
    """Recall@1 in galleries: mean, standard deviation between classes, number of classes, and spread of embeddings."""

    value: float
    deviation: float
    known: int
    spread: float


@dataclass(frozen=True)
class SpreadEffect:
    """How recall depends on the spread of a gallery: a line, the spreads it is known for, and its residual deviation.

    ``slope`` is 0 where it is not significant.
    """

    slope: float
    low: float
    high: float
    misfit: float


@dataclass(frozen=True)
class ScoredRung:
    """A rung as it is compared: its shift, the recall on its test classes, and that on its training classes.

    Both sides have the same distance; their difference in recall shows how much depends on the classes themselves.
    ``other``, the recall of the training side, is None where a model was trained on them.
    """

    number: int
    distance: float
    shift: float
    recall: Recall
    other: Recall | None = None


@dataclass(frozen=True)
class ExpectedRecall:
    """The recall to expect, with a 95 % interval for one gallery; None beyond the hardest rung.

    ``place`` is "below" the easiest rung (whose recall is then expected), "between" two rungs, or "beyond" the hardest;
    ``near`` are the numbers of these rungs.
    """

    place: Literal["below", "between", "beyond"]
    near: tuple[int, ...]
    value: float | None = None
    low: float | None = None
    high: float | None = None


def chance_rate(features: NDArray[np.floating], labels: Labels, *, seed: int = 0) -> float:
    """c, so that c (1/k_1 + 1/k_2) is the mean corrected distance of random groups of k_1 and k_2 of these classes."""
    classes = np.unique(labels)
    half = len(classes) // 2
    distances = []
    for number in range(HALVES):
        order = numpy_generator(derive(seed, "random halves", number)).permutation(classes)
        is_first = np.isin(labels, order[:half])
        distances.append(corrected_distance(features[is_first], features[~is_first]).value)
    return max(0.0, float(np.mean(distances))) / (1 / half + 1 / (len(classes) - half))


def gallery_recall(
    embeddings: NDArray[np.floating],
    labels: Labels,
    *,
    classes: int | None = None,
    per_class: int | None = None,
    draws: int = GALLERIES,
    seed: int = 0,
) -> Recall:
    """Recall@1 in galleries of so many classes with at most so many images each, the mean over random galleries.

    A gallery of fewer classes, or of more images per class, is easier; so recalls are compared only in galleries of the
    same size.

    Empty:   classes of a single image have no positives and are left out
    Raises:  DataError for fewer than two other classes
    """
    known, sizes = np.unique(labels, return_counts=True)
    known, sizes = known[sizes > 1], sizes[sizes > 1]
    count = len(known) if classes is None else min(classes, len(known))
    if count < 2:
        raise DataError("recall needs at least two classes of two images", got=count)
    hits: list[NDArray[np.float64]] = []
    spreads = []
    is_random = count < len(known) or (per_class is not None and per_class < sizes.max())
    for number in range(draws if is_random else 1):
        generator = numpy_generator(derive(seed, "galleries", number))
        rows = np.flatnonzero(np.isin(labels, generator.permutation(known)[:count]))
        if per_class is not None:
            rows = _limit_per_class(rows, labels, per_class, generator)
        own = np.unique(labels[rows], return_inverse=True)[1]
        right = nearest_neighbours(embeddings[rows], own, k=1).right[:, 0]
        hits.append(np.stack([np.bincount(own, right), np.bincount(own)]))
        spreads.append(spread_of(embeddings[rows]))
    value = float(np.mean([right.sum() / rows.sum() for right, rows in hits]))
    recalls = np.concatenate([right / rows for right, rows in hits])
    return Recall(value, float(recalls.std(ddof=1)), len(known), float(np.mean(spreads)))


def spread_of(embeddings: NDArray[np.floating], labels: Labels | None = None) -> float:
    """The mean squared distance of normalised embeddings from their mean; with labels from the means of classes."""
    rows = np.asarray(embeddings, np.float64)
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float64).tiny)
    own = np.zeros(len(rows), np.int64) if labels is None else np.unique(labels, return_inverse=True)[1]
    of_means = np.square(class_means(rows, own)).sum(axis=1)
    return float(np.square(rows).sum(axis=1).mean() - np.average(of_means, weights=np.bincount(own)))


def spread_of_fewer(spread: float, within: float, *, classes: int, fewer: int) -> float:
    """The spread of a random selection of ``fewer`` of the classes: the part between classes grows as 1 - 1/k."""
    return within + (spread - within) * (1 - 1 / fewer) / (1 - 1 / classes)


def spread_effect(
    embeddings: NDArray[np.floating], labels: Labels, *, classes: int, per_class: int | None = None, seed: int = 0
) -> SpreadEffect | None:
    """How recall depends on spread over galleries of so many classes: similar, dissimilar and random ones.

    None where there are too few other classes for galleries to differ. Classes of a single image are left out.
    """
    known, sizes = np.unique(labels, return_counts=True)
    has_positives = np.isin(labels, known[sizes > 1])
    embeddings, own = embeddings[has_positives], np.unique(labels[has_positives], return_inverse=True)[1]
    count = int((sizes > 1).sum())
    if classes < 2 or count < max(classes + 2, round(1.2 * classes)):
        return None
    means = class_means(embeddings, own)
    recalls = []
    for number in range(SPREAD_GALLERIES):
        order = numpy_generator(derive(seed, "alike or unlike", number)).permutation(count)
        distance = np.linalg.norm(means[order] - means[order[0]], axis=1)
        chosen = (order, order[np.argsort(distance)], order[np.argsort(-distance)])[number % 3][:classes]
        rows = np.flatnonzero(np.isin(own, chosen))
        recalls.append(gallery_recall(embeddings[rows], own[rows], per_class=per_class, draws=1, seed=seed))
    spreads, values = (np.array([getattr(recall, name) for recall in recalls]) for name in ("spread", "value"))
    slope = 0.0
    if np.ptp(spreads) > 0:
        line = linregress(spreads, values)
        slope = float(line.slope) if line.slope > 2 * line.stderr else 0.0
    misfit = float(np.std(values - slope * spreads, ddof=2))
    return SpreadEffect(slope, float(spreads.min()), float(spreads.max()), misfit)


def _limit_per_class(rows: Labels, labels: Labels, most: int, generator: np.random.Generator) -> Labels:
    """At most so many random rows of each class."""
    shuffled = generator.permutation(rows)
    shuffled = shuffled[np.argsort(labels[shuffled], kind="stable")]
    own = labels[shuffled]
    return np.sort(shuffled[np.arange(len(own)) - np.searchsorted(own, own) < most])


def forecast_recall(
    rungs: Sequence[ScoredRung],
    shift: float,
    *,
    classes: int,
    spread: float | None = None,
    effect: SpreadEffect | None = None,
) -> ExpectedRecall:
    r"""The recall at a shift, by linear interpolation between the rungs next to it; nothing is extrapolated.

    With ``effect`` every recall is first corrected to the spread of deployment, as far as galleries of the training
    data reach. The interval has three parts, added in squares: that of a gallery of so many classes, the error of
    interpolation (each inner rung left out in turn), and the difference between galleries of the same distance and
    spread: that of the two sides of the rungs nearby or the misfit of ``effect``, whichever is larger.

    Raises:  DataError for fewer than two rungs
    """
    check_count("forecast_recall", "classes", classes, at_least=2)
    if len(rungs) < 2:
        raise DataError(
            "a ladder needs at least two measured rungs", got=len(rungs), hint="Use more images of each class."
        )
    order = sorted(rungs, key=lambda rung: rung.shift)
    slope = target = 0.0
    if effect is not None and spread is not None:
        slope, target = effect.slope, float(np.clip(spread, effect.low, effect.high))

    def at_target(recall: Recall) -> float:
        return recall.value + slope * (target - recall.spread)

    shifts = np.array([rung.shift for rung in order])
    values = np.array([at_target(rung.recall) for rung in order])
    if shift > shifts[-1]:
        return ExpectedRecall("beyond", (order[-1].number,))
    after = int(np.searchsorted(shifts, shift))
    near = order[:1] if after == 0 else order[after - 1 : after + 1]
    errors = [
        values[inner] - np.interp(shifts[inner], np.delete(shifts, inner), np.delete(values, inner))
        for inner in range(1, len(order) - 1)
    ]
    interpolation = float(np.mean(np.square(errors))) if errors else 0.0
    deviation = max(rung.recall.deviation for rung in near)
    known = min(rung.recall.known for rung in near)
    differences = [at_target(rung.recall) - at_target(rung.other) for rung in near if rung.other is not None]
    # The variance of two values is half their squared difference.
    between_sides = float(np.mean(np.square(differences))) / 2 if differences else 0.0
    between_galleries = between_sides if effect is None else max(between_sides, effect.misfit**2)
    error = np.sqrt(deviation**2 * (1 / classes + 1 / known) + interpolation + between_galleries)
    half = float(student.ppf(0.975, max(1, min(classes, known) - 1)) * error)
    value = float(np.clip(np.interp(shift, shifts, values), 0, 1))
    numbers = tuple(rung.number for rung in near)
    place: Literal["below", "between"] = "below" if after == 0 else "between"
    return ExpectedRecall(place, numbers, value, max(0.0, value - half), min(1.0, value + half))
