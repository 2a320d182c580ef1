"""Where a model fails: the worst queries, confused classes, near-duplicates across classes, the weakest classes."""

import math
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unseen.core.checks import check_between, check_count
from unseen.evaluation.exact.arrays import Floats, Integers
from unseen.evaluation.exact.inputs import Embeddings, Gallery, Labels, Rows, Table, as_list, read_table
from unseen.evaluation.exact.nearest_other_class import Pairs, exact_similarities, match_other_classes
from unseen.evaluation.exact.ranks import Ranks, rank_positives
from unseen.evaluation.exact.row_hashes import order_of, row_keys
from unseen.evaluation.scores.average_precision import AveragePrecision
from unseen.evaluation.scores.recall import Recall

Names = NDArray[Any]


class WorstQueries(NamedTuple):
    """Queries whose nearest positive ranks late: the latest first, then by lower average precision."""

    query: Integers  # row of the query
    label: Names
    rank: Floats  # rank of its nearest positive, the expected rank if items tie
    average_precision: Floats  # over the full ranking
    positive: Integers  # row of the nearest positive
    positive_similarity: Floats
    wrong: Integers  # row of the nearest item of another class
    wrong_label: Names
    wrong_similarity: Floats


class ConfusedClasses(NamedTuple):
    """Pairs of classes of which the first is confused with the second by ``queries`` of its queries.

    A query is confused with the class of its nearest item of another class if no positive is nearer. ``share`` is
    relative to the queries of the class that have a positive. ``query``, ``item`` is the most similar example.
    """

    label: Names
    wrong_label: Names
    queries: Integers
    share: Floats
    query: Integers
    item: Integers
    similarity: Floats


class NearDuplicates(NamedTuple):
    """Rows and labels of two nearly identical items of different classes, most similar first."""

    first: Integers
    second: Integers
    first_label: Names
    second_label: Names
    similarity: Floats


class WeakestClasses(NamedTuple):
    """Classes with the lowest recall@1, and the number of their queries that have a positive."""

    label: Names
    queries: Integers
    recall: Floats


@dataclass(frozen=True, eq=False, kw_only=True)
class Failures:
    """Lists of at most ``count`` failures of each kind, and how many there are in total.

    Only failures are listed: queries whose nearest item may be wrong, classes with a recall@1 below 1.
    """

    worst: WorstQueries
    confused: ConfusedClasses
    near_duplicates: NearDuplicates
    weakest: WeakestClasses
    queries: int
    queries_without_positives: int
    failed_queries: int
    confused_pairs: int
    duplicate_pairs: int
    duplicate_similarity: float

    def to_dict(self) -> dict[str, object]:
        """The failures as JSON-compatible values."""
        content: dict[str, object] = {}
        for entry in fields(self):
            value = getattr(self, entry.name)
            is_list = isinstance(value, tuple)
            content[entry.name] = {k: v.tolist() for k, v in value._asdict().items()} if is_list else value
        return content


def failures(
    embeddings: Embeddings,
    labels: Labels,
    *,
    queries: Rows | None = None,
    gallery: Rows | Gallery | None = None,
    groups: Labels | None = None,
    count: int = 20,
    duplicate_similarity: float = 0.98,
    memory: int = 500,
) -> Failures:
    """Find the failures of a table of embeddings; the arguments up to groups are those of `evaluate`.

    ====================  ==================================================================================
    count                 maximum length of each list
    duplicate_similarity  cosine similarity from which two items of different classes are near-duplicates: one of
                          them is mislabelled, or a test image leaked, or two classes are one
    memory                MB beyond the embeddings; affects the time, never the result
    ====================  ==================================================================================

    Ties are ordered by label, then by content: another order of the rows only renumbers them (and of identical copies
    in one class may list another one). Rows of a separate gallery are numbered after those of the queries.

    Empty:   queries without a positive are counted but not listed; without failures the lists are empty
    Raises:  BatchError for embeddings, labels or rows that do not fit together, ConfigError for a setting out of range

    >>> result = failures(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.1]]), ["owl", "owl", "emu"])
    >>> result.confused.label.tolist(), result.confused.wrong_label.tolist(), result.worst.rank.tolist()
    (['owl'], ['emu'], [2.0, 2.0])
    """
    check_count("failures", "count", count)
    check_between("failures", "duplicate_similarity", duplicate_similarity, -1, 1)
    check_count("failures", "memory", memory)
    table = read_table(embeddings, labels, queries, gallery, groups=groups, memory=memory)
    names = _names_of(table, labels, gallery)
    order = order_of(row_keys(table.directions), table.classes)
    matches = match_other_classes(table, order, count=count, threshold=duplicate_similarity, memory=memory)
    ranks = rank_positives(table, memory=memory)
    lists = _Lists(table, names, np.argsort(order), ranks, matches.nearest)
    confused, confused_pairs = lists.confused(count)
    return Failures(
        worst=lists.worst(count),
        confused=confused,
        near_duplicates=lists.near_duplicates(matches.near_duplicates),
        weakest=lists.weakest(count),
        queries=len(table.queries),
        queries_without_positives=int((ranks.positives == 0).sum()),
        failed_queries=len(lists.failed),
        confused_pairs=confused_pairs,
        duplicate_pairs=matches.near_duplicate_count,
        duplicate_similarity=float(duplicate_similarity),
    )


def expected_first_rank(ranks: Ranks) -> Floats:
    """The expected rank of each query's nearest positive, 0 for a query without positives.

    In a tied group behind n items, with t items and r positives, the first positive stands at n + (t + 1) / (r + 1).
    """
    nearest = ranks.nearest_groups
    expected = np.zeros(len(ranks.positives))
    expected[nearest.query] = nearest.before + (nearest.size + 1) / (nearest.positives + 1)
    return expected


class _Lists:
    """Makes the lists from the ranks and the nearest item of another class of each query; ``order`` breaks ties."""

    def __init__(self, table: Table, names: Names, order: Integers, ranks: Ranks, nearest: Integers) -> None:
        self.table, self.names, self.order, self.ranks, self.nearest = table, names, order, ranks, nearest
        self.query_classes = table.classes[table.queries]
        self.recall = Recall(k=1)(ranks)
        self.failed = np.flatnonzero((ranks.positives > 0) & (self.recall < 1))

    def worst(self, count: int) -> WorstQueries:
        rank, precision = expected_first_rank(self.ranks), AveragePrecision()(self.ranks)
        rows = self.table.queries
        best = np.lexsort((self.order[rows[self.failed]], precision[self.failed], -rank[self.failed]))
        chosen = self.failed[best[:count]]
        query, wrong = rows[chosen], self.nearest[chosen]
        positive = np.array([self._nearest_positive(row) for row in query.tolist()], dtype=np.int64)
        return WorstQueries(
            query,
            self._labels(query),
            rank[chosen],
            precision[chosen],
            positive,
            self._similarity(query, positive),
            wrong,
            self._labels(wrong),
            self._similarity(query, wrong),
        )

    def confused(self, count: int) -> tuple[ConfusedClasses, int]:
        query, item = self.table.queries[self.failed], self.nearest[self.failed]
        classes = np.stack([self.table.classes[query], self.table.classes[item]])
        pairs, pair_of, counts = np.unique(classes, axis=1, return_inverse=True, return_counts=True)
        answerable = np.bincount(self.query_classes[self.ranks.positives > 0], minlength=len(self.names))
        share = counts / answerable[pairs[0]] if len(counts) else np.empty(0)
        best = np.lexsort((pairs[1], pairs[0], -share, -counts))[:count]
        examples = np.array(
            [self._most_similar(query[pair_of.ravel() == n], item[pair_of.ravel() == n]) for n in best], dtype=np.int64
        ).reshape(-1, 2)
        first, second = self.names[pairs[0, best]], self.names[pairs[1, best]]
        similarity = self._similarity(*examples.T)
        listed = ConfusedClasses(first, second, counts[best], share[best], examples[:, 0], examples[:, 1], similarity)
        return listed, len(counts)

    def near_duplicates(self, near: Pairs) -> NearDuplicates:
        first, second, similarity = near
        return NearDuplicates(first, second, self._labels(first), self._labels(second), similarity)

    def weakest(self, count: int) -> WeakestClasses:
        answerable = self.ranks.positives > 0
        classes = self.query_classes[answerable]
        values, counts = np.unique(classes, return_counts=True)
        by_class = np.split(self.recall[answerable][np.argsort(classes)], np.cumsum(counts)[:-1])
        # An exactly rounded sum does not depend on the order of the queries.
        recall = np.array([math.fsum(part) / len(part) for part in by_class if len(part)])
        best = np.lexsort((values, -counts, recall))
        best = best[recall[best] < 1][:count]
        return WeakestClasses(self.names[values[best]], counts[best], recall[best])

    def _nearest_positive(self, row: int) -> int:
        table = self.table
        items = table.gallery[(table.classes[table.gallery] == table.classes[row]) & (table.gallery != row)]
        if table.groups is not None:
            items = items[table.groups[items] != table.groups[row]]
        items = items[np.argsort(self.order[items])]
        exact, _ = exact_similarities(table.directions, np.full(len(items), row), items)
        return int(items[exact.argmax()])

    def _most_similar(self, query: Integers, item: Integers) -> tuple[int, int]:
        similarity = self._similarity(query, item)
        best = np.lexsort((self.order[query], -similarity))[0]
        return int(query[best]), int(item[best])

    def _similarity(self, one: Integers, two: Integers) -> Floats:
        return exact_similarities(self.table.directions, one, two)[1]

    def _labels(self, rows: Integers) -> Names:
        return self.names[self.table.classes[rows]]


def _names_of(table: Table, labels: Labels, gallery: Rows | Gallery | None) -> Names:
    """The original label of each class number."""
    values = as_list(labels)
    if len(values) < len(table.classes):
        assert isinstance(gallery, tuple), "a table has more rows than labels only with a separate gallery"
        values += as_list(gallery[1])
    rows = np.unique(table.classes, return_index=True)[1]
    chosen = [values[row] for row in rows.tolist()]
    is_small = not isinstance(chosen[0], (str, bytes)) and all(-(2**63) <= value < 2**63 for value in chosen)
    # NumPy would round large integers.
    return np.array(chosen, dtype=np.str_ if isinstance(chosen[0], str) else np.int64 if is_small else object)
