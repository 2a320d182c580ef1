"""The bases of scores: inputs that `evaluate` computes once for all scores that declare them.

The table in `unseen.evaluation.scores` says what a score of each basis is called with.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from unseen.core.console import bar_when_long
from unseen.core.errors import BatchError
from unseen.evaluation.exact.arrays import Integers
from unseen.evaluation.exact.directions import SCALE, Directions
from unseen.evaluation.exact.inputs import Labels, Table, class_numbers
from unseen.evaluation.exact.kmeans import KMeans
from unseen.evaluation.exact.pair_histograms import pair_histograms
from unseen.evaluation.exact.ranks import rank_positives
from unseen.evaluation.intervals import group_classes
from unseen.evaluation.scores.clustering import check_super_classes
from unseen.evaluation.scores.pair_curves import PairCounts, binned_counts, count_pairs
from unseen.evaluation.scores.spectra import singular_values, singular_values_without
from unseen.evaluation.scores.structure import class_sums

TIES = {"expected": "ties: expected value over all orders", "optimistic": "ties: positives first"}
EMPTY = {"zero": "a query without positives counts 0", "skip": "queries without positives are left out"}


@dataclass(frozen=True)
class EvaluationSet:
    """A table with the settings of its evaluation, and what several bases share."""

    table: Table
    ties: Literal["expected", "optimistic"]
    empty: Literal["zero", "skip"]
    kmeans: KMeans
    memory: int
    has_intervals: bool
    super_labels: Labels | None

    @cached_property
    def rows(self) -> Integers:
        """Rows that are queries or in the gallery."""
        return np.union1d(self.table.queries, self.table.gallery)

    @cached_property
    def classes(self) -> Integers:
        """The class of each of these rows."""
        return self.table.classes[self.rows]

    @cached_property
    def directions(self) -> Directions:
        """The direction of each of these rows."""
        return self.table.directions.take(self.rows)

    @cached_property
    def class_groups(self) -> Integers:
        """A group for each class; groups are left out one at a time for the intervals."""
        return group_classes(self.table.class_count)

    @property
    def has_groups(self) -> bool:
        """Whether there are groups to leave out, and intervals are wanted."""
        return self.has_intervals and len(np.unique(self.class_groups[self.classes])) > 1


class Inputs(NamedTuple):
    """What the scores of one basis are called with."""

    arguments: tuple[Any, ...]  # for the value of a score
    without: Callable[[int], tuple[Any, ...]] | None = None  # from a group of classes to the arguments without these
    note: str = ""  # added to the definition of a score
    query_classes: Integers | None = None  # of each query, for scores with one value per query
    baseline: tuple[Any, ...] | None = None  # what those without a group are compared with, if not the arguments


def _ranks(data: EvaluationSet) -> Inputs:
    ranks = rank_positives(data.table, memory=data.memory)
    classes = data.table.classes[data.table.queries]
    if data.empty == "skip":
        has_positive = ranks.positives > 0
        if not has_positive.any():
            raise BatchError(
                "no query has a positive in the gallery", hint="Set empty='zero', or use labels that repeat."
            )
        ranks, classes = ranks.select(has_positive), classes[has_positive]
    if data.ties == "optimistic":
        ranks = ranks.optimistic()
    return Inputs((ranks,), note=f"; {TIES[data.ties]}; {EMPTY[data.empty]}", query_classes=classes)


def _clusters(data: EvaluationSet) -> Inputs:
    return _partitions(data, data.classes, data.kmeans)


def _super_clusters(data: EvaluationSet) -> Inputs:
    assert data.super_labels is not None, "evaluate refuses these scores without super_labels"
    super_classes = class_numbers(data.super_labels)
    check_super_classes(data.table.classes, super_classes)
    # A number of clusters that was set is meant for the classes.
    return _partitions(data, super_classes[data.rows], replace(data.kmeans, clusters=None))


def _partitions(data: EvaluationSet, classes: Integers, kmeans: KMeans) -> Inputs:
    with bar_when_long("k-means") as progress:
        count = len(np.unique(classes))
        clusters = kmeans(data.directions, count, memory=data.memory, progress=progress).assignment
    # Without a group of classes, the clusters stay those of all classes.
    return _inputs_by_row(data, clusters, classes, note=f"; {kmeans.definition}")


def _inputs_by_row(data: EvaluationSet, *arguments: np.ndarray, note: str = "") -> Inputs:
    """Arguments with an entry per row."""

    def without(group: int) -> tuple[np.ndarray, ...]:
        rows = np.flatnonzero(data.class_groups[data.classes] != group)
        return tuple(argument[rows] for argument in arguments)

    return Inputs(arguments, without, note=note)


def _structure(data: EvaluationSet) -> Inputs:
    numbers, classes = np.unique(data.classes, return_inverse=True)
    sums = class_sums(data.directions, classes.astype(np.int64))
    return Inputs((sums,), lambda group: (sums.select(np.flatnonzero(data.class_groups[numbers] != group)),))


def _spectrum(data: EvaluationSet) -> Inputs:
    groups = data.class_groups[data.classes]
    count = int(data.class_groups.max()) + 1
    spectra = singular_values_without(data.directions, groups, count) if data.has_groups else []
    return Inputs((singular_values(data.directions),), lambda group: (spectra[group],))


def _curves(data: EvaluationSet) -> Inputs:
    counts = count_pairs(data.table)
    if not data.has_groups:
        return Inputs((counts,))
    histograms = pair_histograms(data.table, class_groups=data.class_groups)
    groups = range(len(histograms.positives))

    def without(group: int) -> tuple[PairCounts]:
        return (binned_counts(histograms, [other for other in groups if other != group]),)

    # Binned pairs give other last digits than exact similarities, so values of binned pairs are compared.
    return Inputs((counts,), without, baseline=(binned_counts(histograms),))


def _embeddings(data: EvaluationSet) -> Inputs:
    return _inputs_by_row(data, data.directions.integers().numpy() / SCALE, data.classes)


BASES: dict[str, Callable[[EvaluationSet], Inputs]] = {
    "ranks": _ranks,
    "clusters": _clusters,
    "super_clusters": _super_clusters,
    "structure": _structure,
    "spectrum": _spectrum,
    "curves": _curves,
    "embeddings": _embeddings,
}

NEEDS_SUPER_LABELS = ("super_clusters",)
