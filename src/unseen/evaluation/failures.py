"""Where a model fails: the worst queries, confused classes, near-duplicates across classes, the weakest classes."""

import math
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from unseen.core.checks import check_between, check_count
from unseen.evaluation.exact.inputs import Embeddings, Gallery, Labels, Rows, Table, read_table
from unseen.evaluation.exact.nearest_other_class import Pairs, exact_similarities, find_crossings
from unseen.evaluation.exact.ranks import Ranks, rank_positives
from unseen.evaluation.exact.row_hashes import order_of, row_keys
from unseen.evaluation.scores.retrieval import AveragePrecision, Recall

Whole = NDArray[np.int64]
Values = NDArray[np.float64]
Names = NDArray[Any]

_ITEMS_AT_ONCE = 4096


class WorstQueries(NamedTuple):
    """Queries whose nearest positive comes late: the latest first, of equally late ones the lower average precision.

    ===================  ============================================================================
    query, label         row and label of the query
    rank                 place of its nearest positive, the expected one where items tie
    average_precision    over the full ranking
    positive             row of the nearest positive, and ``positive_similarity``
    wrong, wrong_label   row and label of the nearest item of another class, and ``wrong_similarity``
    ===================  ============================================================================
    """

    query: Whole
    label: Names
    rank: Values
    average_precision: Values
    positive: Whole
    positive_similarity: Values
    wrong: Whole
    wrong_label: Names
    wrong_similarity: Values


class ConfusedClasses(NamedTuple):
    """Pairs of classes, the first taken for the second: ``queries`` of it are, a ``share`` of those with a positive.

    A query is taken for the class of its nearest item of another class if no positive is nearer than that. The pair
    ``query``, ``item`` is the most similar example.
    """

    label: Names
    wrong_label: Names
    queries: Whole
    share: Values
    query: Whole
    item: Whole
    similarity: Values


class NearDuplicates(NamedTuple):
    """Rows and labels of two items that nearly are one but for their class, most similar first."""

    first: Whole
    second: Whole
    first_label: Names
    second_label: Names
    similarity: Values


class WeakestClasses(NamedTuple):
    """Classes of low recall@1, lowest first, with the number of their queries that have a positive."""

    label: Names
    queries: Whole
    recall: Values


@dataclass(frozen=True, eq=False, kw_only=True)
class Failures:
    """What `failures` finds: lists of at most ``count`` entries, and how many there are in all.

    Lists hold failures only: queries whose nearest item may be wrong, classes with a recall@1 below 1.
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

    def to_dict(self) -> dict[str, Any]:
        """The failures as JSON can hold them."""
        content: dict[str, Any] = {}
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
    """The failures of a table of embeddings; embeddings, labels, queries, gallery and groups are those of `evaluate`.

    ====================  ==================================================================================
    count                 entries of each list
    duplicate_similarity  cosine from which two items of different classes are near-duplicates: one of them is
                          labelled wrong, or a test image leaked, or two classes are one
    memory                MB beyond the embeddings; changes the time, never the result
    ====================  ==================================================================================

    What ties is listed by label, then by content: another order of the rows only renames rows (and of copies of one
    class, which nobody can tell apart, may list another). Rows of a gallery given as embeddings of its own are
    numbered behind those of the queries.

    Empty:   queries without a positive are counted and in no list; without failures the lists are empty
    Raises:  BatchError for embeddings, labels or rows that do not fit, ConfigError for a setting out of range

    >>> found = failures(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.1]]), ["owl", "owl", "emu"])
    >>> found.confused.label.tolist(), found.confused.wrong_label.tolist(), found.worst.rank.tolist()
    (['owl'], ['emu'], [2.0, 2.0])
    """
    check_count("failures", "count", count)
    check_between("failures", "duplicate_similarity", duplicate_similarity, -1, 1)
    check_count("failures", "memory", memory)
    table = read_table(embeddings, labels, queries, gallery, groups=groups, memory=memory)
    names = _names_of(table, labels, gallery)
    order = order_of(row_keys(table.directions), table.classes)
    crossings = find_crossings(table, order, count=count, threshold=duplicate_similarity, memory=memory)
    ranks = rank_positives(table, memory=memory)
    view = _View(table, names, np.argsort(order), ranks, crossings.nearest)
    confused, confused_pairs = view.confused(count)
    return Failures(
        worst=view.worst(count),
        confused=confused,
        near_duplicates=view.near_duplicates(crossings.near),
        weakest=view.weakest(count),
        queries=len(table.queries),
        queries_without_positives=int((ranks.positives == 0).sum()),
        failed_queries=len(view.failed),
        confused_pairs=confused_pairs,
        duplicate_pairs=crossings.in_all,
        duplicate_similarity=float(duplicate_similarity),
    )


def expected_first_rank(ranks: Ranks) -> Values:
    """The expected place of each query's nearest positive, 0 where it has none.

    In a tied group behind n items, with t items and r positives, the first positive stands at n + (t + 1) / (r + 1).
    """
    groups = ranks.groups
    nearest = groups.positives_before == 0
    places = np.zeros(len(ranks.positives))
    places[groups.query[nearest]] = groups.before[nearest] + (groups.size[nearest] + 1) / (
        groups.positives[nearest] + 1
    )
    return places


class _View:
    """Ranks and nearest wrong items of one table, made into lists; queries are known by their place among them."""

    def __init__(self, table: Table, names: Names, number: Whole, ranks: Ranks, nearest: Whole) -> None:
        self.table, self.names, self.number, self.ranks, self.nearest = table, names, number, ranks, nearest
        self.asked = table.classes[table.queries]
        self.recall = Recall(k=1)(ranks)
        self.failed = np.flatnonzero((ranks.positives > 0) & (self.recall < 1))

    def worst(self, count: int) -> WorstQueries:
        rank, precision = expected_first_rank(self.ranks), AveragePrecision()(self.ranks)
        rows = self.table.queries
        best = np.lexsort((self.number[rows[self.failed]], precision[self.failed], -rank[self.failed]))
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
        pairs, place, found = np.unique(classes, axis=1, return_inverse=True, return_counts=True)
        answerable = np.bincount(self.asked[self.ranks.positives > 0], minlength=len(self.names))
        share = found / answerable[pairs[0]] if len(found) else np.empty(0)
        best = np.lexsort((pairs[1], pairs[0], -share, -found))[:count]
        examples = [self._most_similar(query[member], item[member]) for member in (place.ravel() == n for n in best)]
        shown = np.array(examples, dtype=np.int64).reshape(-1, 2)
        first, second = self.names[pairs[0, best]], self.names[pairs[1, best]]
        similarity = self._similarity(shown[:, 0], shown[:, 1])
        listed = ConfusedClasses(first, second, found[best], share[best], shown[:, 0], shown[:, 1], similarity)
        return listed, len(found)

    def near_duplicates(self, near: Pairs) -> NearDuplicates:
        first, second, similarity = near
        return NearDuplicates(first, second, self._labels(first), self._labels(second), similarity)

    def weakest(self, count: int) -> WeakestClasses:
        answerable = self.ranks.positives > 0
        classes = self.asked[answerable]
        values, found = np.unique(classes, return_counts=True)
        by_class = np.split(self.recall[answerable][np.argsort(classes)], np.cumsum(found)[:-1])
        # An exactly rounded sum does not depend on the order of the queries.
        recall = np.array([math.fsum(part) / len(part) for part in by_class if len(part)])
        best = np.lexsort((values, -found, recall))
        best = best[recall[best] < 1][:count]
        return WeakestClasses(self.names[values[best]], found[best], recall[best])

    def _nearest_positive(self, row: int) -> int:
        table = self.table
        items = table.gallery[(table.classes[table.gallery] == table.classes[row]) & (table.gallery != row)]
        if table.groups is not None:
            items = items[table.groups[items] != table.groups[row]]
        items = items[np.argsort(self.number[items])]
        exact = np.empty(len(items))
        asked = table.directions.whole(np.array([row]))[0]
        for start in range(0, len(items), _ITEMS_AT_ONCE):
            part = items[start : start + _ITEMS_AT_ONCE]
            products = (table.directions.whole(part) @ asked).numpy()
            exact[start : start + len(part)] = products * table.directions.inverse_norms.numpy()[part]
        return int(items[exact.argmax()])

    def _most_similar(self, query: Whole, item: Whole) -> tuple[int, int]:
        similarity = self._similarity(query, item)
        best = np.lexsort((self.number[query], -similarity))[0]
        return int(query[best]), int(item[best])

    def _similarity(self, one: Whole, two: Whole) -> Values:
        return exact_similarities(self.table.directions, one, two)[1]

    def _labels(self, rows: Whole) -> Names:
        return self.names[self.table.classes[rows]]


def _names_of(table: Table, labels: Labels, gallery: Rows | Gallery | None) -> Names:
    """The label of each class number, as it was given."""
    values = _as_list(labels)
    if len(values) < len(table.classes):
        assert isinstance(gallery, tuple), "a table has more rows than labels only with a gallery of its own"
        values += _as_list(gallery[1])
    rows = np.unique(table.classes, return_index=True)[1]
    chosen = [values[row] for row in rows.tolist()]
    is_text = isinstance(chosen[0], (str, bytes))
    is_small = not is_text and all(-(2**63) <= value < 2**63 for value in chosen)
    # NumPy would round large whole numbers.
    return np.array(chosen, dtype=np.str_ if isinstance(chosen[0], str) else np.int64 if is_small else object)


def _as_list(labels: Any) -> list[Any]:
    return labels.tolist() if isinstance(labels, (Tensor, np.ndarray)) else list(labels)
