"""Every score of the papers from embeddings and labels, in one call."""

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from unseen.core.checks import check_choice, check_count
from unseen.core.errors import ConfigError
from unseen.evaluation.bases import BASES, EMPTY, NEEDS_SUPER_LABELS, TIES, EvaluationSet, Inputs
from unseen.evaluation.exact.inputs import Embeddings, Gallery, Labels, Rows, Table, read_table
from unseen.evaluation.exact.kmeans import KMeans
from unseen.evaluation.intervals import (
    Bootstrap,
    Draws,
    Resampled,
    fingerprint_of,
    resample_by_class,
    resample_by_jackknife,
)
from unseen.evaluation.score_table import Scores, read_names
from unseen.evaluation.scores.base import Score


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
    """Compute the scores of a table of embeddings: exact, with the query removed by its index.

    ============  ============================================================================================
    embeddings    torch tensor or NumPy array (images, dimensions), also a memory-mapped file larger than the
                  memory; compared by cosine similarity, so lengths do not matter
    labels        integers of any size, or strings
    queries       row numbers or a mask; all rows by default
    gallery       row numbers or a mask, or a pair (embeddings, labels); all rows by default
    groups        a label for each row; a query is not compared with rows of its own group (a video, a category)
    super_labels  a coarser label for each row (SOP's 12 categories), for the scores ``nmi_super``, ``f1_super``
    scores        names, "recall@1,map@r" or a list (`unseen list scores`); all by default
    without       names to leave out, or the basis of scores: "clusters", "curves", "structure", ...
    ks            the k of ``recall`` and ``precision`` where a name states none
    ties          "expected": mean over all orders of tied items; "optimistic": positives first
    empty         queries without a positive count as 0 ("zero") or are left out ("skip"); reported in either case
    kmeans        how queries and gallery together are clustered; 20 iterations from seed 0 by default
    bootstrap     how intervals over classes are drawn; None for no intervals
    memory        MB beyond the embeddings; affects the time, never a score
    ============  ============================================================================================

    Empty:   one image, one class or all classes distinct are scored like any table
    Raises:  BatchError for embeddings, labels or rows that do not fit together, ConfigError for an unknown score

    >>> scores = evaluate(np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]]), ["owl", "owl", "emu"], scores="recall@1")
    >>> scores["recall@1"], scores.queries_without_positives
    (0.6666666666666666, 1)
    """
    check_choice("evaluate", "ties", ties, TIES)
    check_choice("evaluate", "empty", empty, EMPTY)
    check_count("evaluate", "memory", memory)
    wanted, left_out = read_names(scores, ks, without)
    if super_labels is None:
        refused = [name for name, score in wanted.items() if score.basis in NEEDS_SUPER_LABELS]
        if refused and scores is not None:
            raise ConfigError(
                f"evaluate: {refused[0]} needs super_labels", hint="Pass a coarser label for each embedding."
            )
        wanted = {name: score for name, score in wanted.items() if name not in refused}
    table = read_table(embeddings, labels, queries, gallery, groups=groups, memory=memory)
    data = EvaluationSet(table, ties, empty, kmeans or KMeans(), memory, bootstrap is not None, super_labels)

    results: dict[str, _Result] = {}
    for basis in dict.fromkeys(score.basis for score in wanted.values()):
        # One basis after another, so that only one is in memory.
        if basis not in BASES:
            raise ConfigError(f"a score declares the unknown basis '{basis}'", hint=f"Choose from {', '.join(BASES)}.")
        same_basis = {name: score for name, score in wanted.items() if score.basis == basis}
        results |= _compute(same_basis, BASES[basis](data), data)
    results = {name: results[name] for name in wanted}

    numbers = {name: result.value for name, result in results.items()}
    draws, intervals = None, {}
    if bootstrap is not None:
        resampled = {name: result.resampled for name, result in results.items() if result.resampled is not None}
        replicates = bootstrap.replicates(resampled, table.class_count)
        draws = Draws(replicates, bootstrap, fingerprint_of(table.classes, table.queries, table.gallery))
        for name, values in replicates.items():
            intervals[name] = bootstrap.interval(numbers[name], values, wanted[name].bounds)
    return Scores(
        numbers=numbers,
        definitions={name: result.definition for name, result in results.items()},
        queries=len(table.queries),
        gallery=len(table.gallery),
        classes=len(np.unique(data.classes)),
        queries_without_positives=_count_without_positives(table),
        intervals=intervals,
        left_out=left_out,
        draws=draws,
    )


class _Result(NamedTuple):
    """A score's value and definition, and the score as a function of drawn classes if intervals are wanted."""

    value: float
    definition: str
    resampled: Resampled | None


def _compute(scores: Mapping[str, Score], inputs: Inputs, data: EvaluationSet) -> dict[str, _Result]:
    """The scores of one basis."""
    values: dict[str, float] = {}
    resampled: dict[str, Resampled] = {}
    for name, score in scores.items():
        value = score(*inputs.arguments)
        if isinstance(value, np.ndarray):
            assert inputs.query_classes is not None, "only scores of ranks have a value per query"
            if data.has_intervals:
                resampled[name] = resample_by_class(value, inputs.query_classes, data.table.class_count)
            # An exactly rounded sum does not depend on the order of the queries.
            value = math.fsum(value) / len(value)
        values[name] = float(value)
    if data.has_groups and inputs.without is not None:
        groups = int(data.class_groups.max()) + 1
        without: dict[str, list[float]] = {name: [] for name in scores}
        for group in range(groups):
            arguments = inputs.without(group)
            for name, score in scores.items():
                without[name].append(float(score(*arguments)))
        for name, score in scores.items():
            shift = 0.0 if inputs.baseline is None else values[name] - float(score(*inputs.baseline))
            resampled[name] = resample_by_jackknife(values[name], np.array(without[name]) + shift, data.class_groups)
    return {
        name: _Result(values[name], score.definition + inputs.note, resampled.get(name))
        for name, score in scores.items()
    }


def _count_without_positives(table: Table) -> int:
    """Number of queries without a positive in the gallery."""
    in_gallery = np.bincount(table.classes[table.gallery], minlength=table.class_count)[table.classes[table.queries]]
    if table.groups is None:
        excluded = np.isin(table.queries, table.gallery).astype(np.int64)
    else:
        # Items of the query's class and group do not count, the query itself among them.
        numbers = np.unique(np.stack([table.classes, table.groups]), axis=1, return_inverse=True)[1].ravel()
        excluded = np.bincount(numbers[table.gallery], minlength=len(numbers))[numbers[table.queries]]
    return int((in_gallery - excluded == 0).sum())
