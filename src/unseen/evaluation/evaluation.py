"""Every score of the papers from embeddings and labels, in one call."""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from unseen.core.checks import check_choice, check_count
from unseen.core.errors import BatchError
from unseen.evaluation.inputs import Embeddings, Labels, Rows, Table, read_table
from unseen.evaluation.kmeans import KMeans
from unseen.evaluation.ranks import Ranks, rank_positives
from unseen.evaluation.scores import Scores, read_names

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
    gallery: Rows | tuple[Embeddings, Labels] | None = None,
    scores: str | Sequence[str] | None = None,
    ks: Sequence[int] = (1, 2, 4, 8),
    ties: Literal["expected", "optimistic"] = "expected",
    empty: Literal["zero", "skip"] = "zero",
    kmeans: KMeans | None = None,
    memory: int = 64,
) -> Scores:
    """The scores of a table of embeddings, exact, the query removed by its index.

    ===========  ============================================================================================
    embeddings   torch tensor or NumPy array (images, dimensions); compared by cosine, so lengths do not matter
    labels       whole numbers of any size, or texts
    queries      rows that ask: numbers or a mask; all rows by default
    gallery      rows that may answer: numbers or a mask, or a pair (embeddings, labels); all rows by default
    scores       names, "recall@1,map@r" or a list (`unseen list scores`); all by default
    ks           the k of ``recall`` and ``precision`` where a name states none
    ties         "expected": mean over all orders of tied items; "optimistic": positives first, as D's code
    empty        queries without a positive count as 0 ("zero") or are left out ("skip"); shown in either case
    kmeans       how NMI and F1 cluster the queries and gallery together; 20 iterations from seed 0 by default
    memory       MB for similarities beyond the embeddings; changes the time, never a score
    ===========  ============================================================================================

    Empty:   one image, one class or all classes distinct are scored like any table
    Raises:  BatchError for embeddings, labels or rows that do not fit, ConfigError for an unknown score

    >>> found = evaluate(np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]]), ["owl", "owl", "emu"], scores="recall@1")
    >>> found["recall@1"], found.queries_without_positives
    (0.6666666666666666, 1)
    """
    check_choice("evaluate", "ties", ties, _TIES)
    check_choice("evaluate", "empty", empty, _EMPTY)
    check_count("evaluate", "memory", memory)
    wanted = read_names(scores, ks)
    table = read_table(embeddings, labels, queries, gallery)
    numbers: dict[str, float] = {}
    definitions: dict[str, str] = {}

    by_rank = {name: score for name, score in wanted.items() if score.basis == "ranks"}
    if by_rank:
        ranks = _scored(rank_positives(table, memory=memory), ties, empty)
        for name, score in by_rank.items():
            values = score(ranks)
            # An exactly rounded sum does not depend on the order of the queries.
            numbers[name] = math.fsum(values) / len(values)
            definitions[name] = f"{score.definition}; {_TIES[ties]}; {_EMPTY[empty]}"

    by_cluster = {name: score for name, score in wanted.items() if score.basis == "clusters"}
    if by_cluster:
        kmeans = kmeans or KMeans()
        points = np.union1d(table.queries, table.gallery)
        classes = table.classes[points]
        clusters = kmeans(table.directions.take(points), len(np.unique(classes))).assignment
        for name, score in by_cluster.items():
            numbers[name] = score(clusters, classes)
            definitions[name] = f"{score.definition}; {kmeans.definition}"

    return Scores(
        numbers={name: numbers[name] for name in wanted},
        definitions={name: definitions[name] for name in wanted},
        queries=len(table.queries),
        gallery=len(table.gallery),
        classes=len(np.unique(table.classes[np.union1d(table.queries, table.gallery)])),
        queries_without_positives=_without_positives(table),
    )


def _scored(ranks: Ranks, ties: str, empty: str) -> Ranks:
    if empty == "skip":
        if not ranks.positives.any():
            raise BatchError("no query has a positive in the gallery", use="empty='zero', or labels that repeat")
        ranks = ranks.only(ranks.positives > 0)
    return ranks.optimistic() if ties == "optimistic" else ranks


def _without_positives(table: Table) -> int:
    answers = np.bincount(table.classes[table.gallery], minlength=int(table.classes.max()) + 1)
    positives = answers[table.classes[table.queries]] - np.isin(table.queries, table.gallery)
    return int((positives == 0).sum())
