"""Every score of the papers from embeddings and labels, in one call."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unseen.core.checks import check_choice, check_count
from unseen.core.errors import BatchError, ConfigError
from unseen.evaluation.exact.inputs import Embeddings, Gallery, Labels, Rows, Table, class_numbers, read_table
from unseen.evaluation.exact.kmeans import KMeans
from unseen.evaluation.exact.progress import bar_when_long
from unseen.evaluation.exact.ranks import rank_positives
from unseen.evaluation.intervals import (
    Bootstrap,
    Draws,
    Resampled,
    class_means,
    deal_classes,
    fingerprint_of,
    linearised,
)
from unseen.evaluation.score_table import Scores, read_names
from unseen.evaluation.scores.clustering import check_super_classes
from unseen.evaluation.scores.pair_curves import binned_counts, count_pairs, table_histograms
from unseen.evaluation.scores.spectra import singular_values, singular_values_without
from unseen.evaluation.scores.structure import class_sums

_TIES = {
    "expected": "ties: expected value over all orders",
    "optimistic": "ties: positives first",
}
_EMPTY = {
    "zero": "a query without positives counts 0",
    "skip": "queries without positives are left out",
}


def evaluate(
    embeddings: Embeddings,
    labels: Labels,
    *,
    queries: Rows | None = None,
    gallery: Rows | Gallery | None = None,
    groups: Labels | None = None,
    super_labels: Labels | None = None,
    scores: str | Sequence[str] | None = None,
    without: str | Sequence[str] | None = None,
    ks: Sequence[int] = (1, 2, 4, 8),
    ties: Literal["expected", "optimistic"] = "expected",
    empty: Literal["zero", "skip"] = "zero",
    kmeans: KMeans | None = None,
    bootstrap: Bootstrap | None = Bootstrap(),  # noqa: B008 (frozen, so it can be shared)
    memory: int = 500,
) -> Scores:
    """The scores of a table of embeddings, exact, the query removed by its index.

    ============  ============================================================================================
    embeddings    torch tensor or NumPy array (images, dimensions), also one mapped from a file larger than the
                  memory; compared by cosine, so lengths do not matter
    labels        whole numbers of any size, or texts
    queries       rows that ask: numbers or a mask; all rows by default
    gallery       rows that may answer: numbers or a mask, or a pair (embeddings, labels); all rows by default
    groups        a label for each row; rows of one group (a sequence, a category) do not answer each other
    super_labels  a coarser label for each row (SOP's 12 categories), for the scores ``nmi_super``, ``f1_super``
    scores        names, "recall@1,map@r" or a list (`unseen list scores`); all by default
    without       names to leave out, or what they are computed from: "clusters", "curves", "structure", ...
    ks            the k of ``recall`` and ``precision`` where a name states none
    ties          "expected": mean over all orders of tied items; "optimistic": positives first, as D's code
    empty         queries without a positive count as 0 ("zero") or are left out ("skip"); shown in either case
    kmeans        how queries and gallery together are clustered; 20 iterations from seed 0 by default
    bootstrap     how intervals over classes are drawn; None for no intervals
    memory        MB beyond the embeddings; changes the time, never a score
    ============  ============================================================================================

    Empty:   one image, one class or all classes distinct are scored like any table
    Raises:  BatchError for embeddings, labels or rows that do not fit, ConfigError for an unknown score

    >>> found = evaluate(np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]]), ["owl", "owl", "emu"], scores="recall@1")
    >>> found["recall@1"], found.queries_without_positives
    (0.6666666666666666, 1)
    """
    check_choice("evaluate", "ties", ties, _TIES)
    check_choice("evaluate", "empty", empty, _EMPTY)
    check_count("evaluate", "memory", memory)
    wanted, left_out = read_names(scores, ks, without)
    if super_labels is None:
        refused = [name for name, score in wanted.items() if score.basis == "super_clusters"]
        if refused and scores is not None:
            raise ConfigError(
                f"evaluate: {refused[0]} needs super_labels", hint="Use a coarser label for each embedding."
            )
        wanted = {name: score for name, score in wanted.items() if name not in refused}
    table = read_table(embeddings, labels, queries, gallery, groups=groups, memory=memory)
    work = _Work(table, ties, empty, kmeans or KMeans(), memory, bootstrap is not None, super_labels)

    found: dict[str, _Found] = {}
    for basis in dict.fromkeys(score.basis for score in wanted.values()):
        chosen = {name: score for name, score in wanted.items() if score.basis == basis}
        found.update(_SCORERS[basis](work, chosen))
    found = {name: found[name] for name in wanted}

    numbers = {name: each.value for name, each in found.items()}
    draws, intervals = None, {}
    if bootstrap is not None:
        resampled = {name: each.resampled for name, each in found.items() if each.resampled is not None}
        replicates = bootstrap.replicates(resampled, work.class_count)
        draws = Draws(replicates, bootstrap, fingerprint_of(table.classes, table.queries, table.gallery))
        for name, values in replicates.items():
            intervals[name] = bootstrap.interval(numbers[name], values, wanted[name].bounds)
    return Scores(
        numbers=numbers,
        definitions={name: each.definition for name, each in found.items()},
        queries=len(table.queries),
        gallery=len(table.gallery),
        classes=len(np.unique(table.classes[work.points])),
        queries_without_positives=work.queries_without_positives,
        intervals=intervals,
        left_out=left_out,
        draws=draws,
    )


class _Found(NamedTuple):
    """A score's value, what it means, and the score as a function of drawn classes where intervals are wanted."""

    value: float
    definition: str
    resampled: Resampled | None


@dataclass
class _Work:
    """A table with everything that several scores share, computed when first asked for."""

    table: Table
    ties: str
    empty: str
    kmeans: KMeans
    memory: int
    has_intervals: bool
    super_labels: Labels | None
    queries_without_positives: int = field(init=False)

    def __post_init__(self) -> None:
        self.queries_without_positives = _without_positives(self.table)

    @property
    def class_count(self) -> int:
        """The number of classes in the table."""
        return int(self.table.classes.max()) + 1

    @cached_property
    def points(self) -> NDArray[np.int64]:
        """Rows that are queries or in the gallery."""
        return np.union1d(self.table.queries, self.table.gallery)

    @cached_property
    def dealt(self) -> NDArray[np.int64]:
        """A group for each class, to be left out together."""
        return deal_classes(self.class_count)

    def found(self, value: float, definition: str, without: Callable[[int], float]) -> _Found:
        """A score that is known by its values without each group of classes."""
        groups = int(self.dealt.max()) + 1
        if not self.has_intervals or groups < 2:
            return _Found(value, definition, None)
        values = np.array([without(group) for group in range(groups)])
        return _Found(value, definition, linearised(value, values, self.dealt))

    def remaining(self, group: int) -> NDArray[np.int64]:
        """Places among the points whose class is not in the group."""
        return np.flatnonzero(self.dealt[self.table.classes[self.points]] != group)

    def clusters(self, kmeans: KMeans, count: int) -> NDArray[np.int64]:
        """The cluster of each point."""
        with bar_when_long("k-means", kmeans.iterations * kmeans.restarts) as advance:
            done = 0

            def progress(now: int, _: int) -> None:
                nonlocal done
                advance(now - done)
                done = now

            return kmeans(
                self.table.directions.take(self.points), count, memory=self.memory, progress=progress
            ).assignment


def _from_ranks(work: _Work, chosen: dict[str, Any]) -> Iterator[tuple[str, _Found]]:
    ranks = rank_positives(work.table, memory=work.memory)
    classes = work.table.classes[work.table.queries]
    if work.empty == "skip":
        has_positive = ranks.positives > 0
        if not has_positive.any():
            raise BatchError("no query has a positive in the gallery", hint="Use empty='zero', or labels that repeat.")
        ranks, classes = ranks.only(has_positive), classes[has_positive]
    if work.ties == "optimistic":
        ranks = ranks.optimistic()
    for name, score in chosen.items():
        values = score(ranks)
        definition = f"{score.definition}; {_TIES[work.ties]}; {_EMPTY[work.empty]}"
        resampled = class_means(values, classes, work.class_count) if work.has_intervals else None
        # An exactly rounded sum does not depend on the order of the queries.
        yield name, _Found(math.fsum(values) / len(values), definition, resampled)


def _from_clusters(work: _Work, chosen: dict[str, Any]) -> Iterator[tuple[str, _Found]]:
    yield from _of_partition(work, chosen, work.table.classes[work.points], work.kmeans)


def _from_super_clusters(work: _Work, chosen: dict[str, Any]) -> Iterator[tuple[str, _Found]]:
    assert work.super_labels is not None, "super-classes are asked for without their labels"
    super_classes = class_numbers(work.super_labels)
    check_super_classes(work.table.classes, super_classes)
    # A number of clusters that was stated is meant for the classes.
    yield from _of_partition(work, chosen, super_classes[work.points], replace(work.kmeans, clusters=None))


def _of_partition(
    work: _Work, chosen: dict[str, Any], classes: NDArray[np.int64], kmeans: KMeans
) -> Iterator[tuple[str, _Found]]:
    clusters = work.clusters(kmeans, len(np.unique(classes)))
    for name, score in chosen.items():
        definition = f"{score.definition}; {kmeans.definition}"

        # The clusters stay as they were found with all classes.
        def without(group: int, score: Any = score) -> float:
            kept = work.remaining(group)
            return float(score(clusters[kept], classes[kept]))

        yield name, work.found(score(clusters, classes), definition, without)


def _from_structure(work: _Work, chosen: dict[str, Any]) -> Iterator[tuple[str, _Found]]:
    numbers, classes = np.unique(work.table.classes[work.points], return_inverse=True)
    sums = class_sums(work.table.directions.take(work.points), classes.astype(np.int64))
    for name, score in chosen.items():

        def without(group: int, score: Any = score) -> float:
            return float(score(sums.only(np.flatnonzero(work.dealt[numbers] != group))))

        yield name, work.found(score(sums), score.definition, without)


def _from_spectrum(work: _Work, chosen: dict[str, Any]) -> Iterator[tuple[str, _Found]]:
    directions = work.table.directions.take(work.points)
    values = singular_values(directions)
    groups = work.dealt[work.table.classes[work.points]]
    spectra = singular_values_without(directions, groups) if work.has_intervals else []
    for name, score in chosen.items():

        def without(group: int, score: Any = score) -> float:
            return float(score(spectra[group]))

        yield name, work.found(score(values), score.definition, without)


def _from_curves(work: _Work, chosen: dict[str, Any]) -> Iterator[tuple[str, _Found]]:
    counts = count_pairs(work.table)
    binned = table_histograms(work.table, work.dealt) if work.has_intervals and work.class_count > 1 else None
    for name, score in chosen.items():
        value = score(counts)
        # Pairs in bins give other last digits than pairs by themselves.
        shift = 0.0 if binned is None else value - score(binned_counts(binned))

        def without(group: int, score: Any = score, shift: float = shift) -> float:
            assert binned is not None
            kept = np.flatnonzero(np.arange(len(binned.positives)) != group)
            return float(score(binned_counts(binned, kept))) + shift

        yield name, work.found(value, score.definition, without)


_SCORERS: dict[str, Callable[[_Work, dict[str, Any]], Iterator[tuple[str, _Found]]]] = {
    "ranks": _from_ranks,
    "clusters": _from_clusters,
    "super_clusters": _from_super_clusters,
    "structure": _from_structure,
    "spectrum": _from_spectrum,
    "curves": _from_curves,
}


def _without_positives(table: Table) -> int:
    """Queries that nobody in the gallery may answer."""
    count = np.bincount(table.classes[table.gallery], minlength=int(table.classes.max()) + 1)
    answers = count[table.classes[table.queries]]
    if table.groups is None:
        own = np.isin(table.queries, table.gallery).astype(np.int64)
    else:
        # Those of its class in the query's own group do not count; it is one of them itself.
        numbers = np.unique(np.stack([table.classes, table.groups]), axis=1, return_inverse=True)[1].ravel()
        own = np.bincount(numbers[table.gallery], minlength=len(numbers))[numbers[table.queries]]
    return int((answers - own == 0).sum())
