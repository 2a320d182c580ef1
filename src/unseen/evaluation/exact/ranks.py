"""Where the positives of each query rank: the one computation that all retrieval scores are functions of.

**Order.** By cosine similarity, computed without rounding (`directions`). The query is removed by its index.

**Ties.** Items of equal similarity have no order, so a score is the expected value over all orders of the tied items.
A collapsed model then scores exactly at chance, and neither the order of the rows nor a copied image moves a score by
accident. (Breaking ties by index, as SPEC 4.1 proposes, gives another score when the same table is stored in another
order; a data set sorted by class would even score above chance after a collapse.)
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from unseen.evaluation.exact.compiled import IS_COMPILED
from unseen.evaluation.exact.count_above import count_by_screening, count_by_sorting
from unseen.evaluation.exact.inputs import Table
from unseen.evaluation.exact.positives import Positives, find_positives
from unseen.evaluation.exact.thresholds import Counts

Whole = NDArray[np.int64]

_FEW_PAIRS = 2**22
_MANY_POSITIVES = 256


class TiedGroups(NamedTuple):
    """The groups of equally similar items that hold a positive; most hold one item."""

    query: Whole
    before: Whole
    size: Whole
    positives: Whole
    positives_before: Whole


@dataclass(frozen=True)
class Ranks:
    """Ranks of the positives of each query, nearest first, one query after the other.

    ===========  ==================================================================================
    above        for each positive: candidates strictly more similar to the query
    tied         for each positive: candidates exactly as similar, the positive itself among them
    positives    for each query: number of its positives (same class, in the gallery, not itself)
    candidates   for each query: number of gallery items that may answer it, the query itself not among them
    ===========  ==================================================================================

    Without ties the rank of a positive is ``above + 1``.
    """

    above: Whole
    tied: Whole
    positives: Whole
    candidates: Whole

    @cached_property
    def query(self) -> Whole:
        """For each positive: the number of its query."""
        return np.repeat(np.arange(len(self.positives)), self.positives)

    @cached_property
    def order(self) -> Whole:
        """For each positive: how many positives of its query stand before it in the list."""
        firsts = np.cumsum(self.positives) - self.positives
        return np.arange(len(self.above)) - firsts[self.query]

    @cached_property
    def groups(self) -> TiedGroups:
        """The tied groups, in the order of their queries and ranks."""
        if not (self.tied > 1).any():
            return TiedGroups(self.query, self.above, self.tied, self.tied, self.order)
        is_first = np.ones(len(self.above), dtype=bool)
        is_first[1:] = (np.diff(self.query) != 0) | (np.diff(self.above) != 0)
        firsts = np.flatnonzero(is_first)
        counts = np.diff(np.append(firsts, len(self.above)))
        return TiedGroups(self.query[firsts], self.above[firsts], self.tied[firsts], counts, self.order[firsts])

    @cached_property
    def nearest_groups(self) -> TiedGroups:
        """Of each query with positives the first of its tied groups."""
        nearest = np.flatnonzero(self.groups.positives_before == 0)
        return TiedGroups(*(part[nearest] for part in self.groups))

    def optimistic(self) -> "Ranks":
        """The ranks when each positive is put before the negatives it ties with (the rule of D's code)."""
        lengths = self.groups.positives
        starts = np.cumsum(lengths) - lengths
        inside = np.arange(len(self.above)) - np.repeat(starts, lengths)
        return Ranks(self.above + inside, np.ones_like(self.tied), self.positives, self.candidates)

    def only(self, queries: NDArray[np.bool_]) -> "Ranks":
        """The ranks of some of the queries."""
        kept = queries[self.query]
        return Ranks(self.above[kept], self.tied[kept], self.positives[queries], self.candidates[queries])


def rank_positives(table: Table, *, memory: float = 500) -> Ranks:
    """The ranks of all positives of all queries.

    ``memory`` is in MB beyond the embeddings, what the directions keep included. The result depends neither on it nor
    on the number of threads, nor on whether loops are compiled.
    """
    positives = find_positives(table, memory=memory)
    count = count_by_screening if _is_worth_screening(positives) else count_by_sorting
    return in_order_of_the_table(positives, count(positives, memory=memory))


def _is_worth_screening(positives: Positives) -> bool:
    queries, gallery = len(positives.comparison.queries), len(positives.comparison.gallery)
    return (
        IS_COMPILED
        # Loading or compiling the loops takes longer than these few pairs.
        and queries * gallery >= _FEW_PAIRS
        # So many thresholds that float32 decides too little between them.
        and len(positives.similarities) <= _MANY_POSITIVES * queries
        # The compiled loops number the positives of a query in 16 bits.
        and int(np.diff(positives.starts).max(initial=0)) < 2**15
        # The bound on the error is that of float32.
        and torch.get_float32_matmul_precision() == "highest"
    )


def in_order_of_the_table(positives: Positives, counts: Counts) -> Ranks:
    """The ranks of the queries as the table lists them, from counts in the order of the classes."""
    place = np.empty_like(positives.order)
    place[positives.order] = np.arange(len(place))
    sizes = np.diff(positives.starts)[place]
    # Similarities ascend; the nearest positive comes first.
    steps = np.arange(len(positives.similarities)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    source = np.repeat(positives.starts[1:][place], sizes) - 1 - steps
    candidates = positives.comparison.candidates()[place]
    return Ranks(counts.above[source], counts.tied[source], sizes, candidates)
