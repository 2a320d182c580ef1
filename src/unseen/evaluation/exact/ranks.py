"""Ranks of the positives of each query: the one computation that all retrieval scores are functions of.

Items of equal similarity have no order: a score is the expected value over all orders of the tied items. (Breaking ties
by index would give another score when the same table is stored in another order; a data set sorted by class would even
score above chance after a collapse.)
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch

from unseen.evaluation.exact.arrays import Booleans, Floats, Integers
from unseen.evaluation.exact.count_above import count_by_screening, count_by_sorting
from unseen.evaluation.exact.inputs import Table
from unseen.evaluation.exact.kernels import IS_COMPILED
from unseen.evaluation.exact.positives import Positives, find_positives
from unseen.evaluation.exact.thresholds import Counts

_FEW_PAIRS = 2**22
_MANY_POSITIVES = 256


class TiedGroups(NamedTuple):
    """Groups of equally similar items that hold a positive; most hold one item."""

    query: Integers  # number of the query
    before: Integers  # candidates ranked before the group
    size: Integers  # items in the group
    positives: Integers  # positives in the group
    positives_before: Integers  # positives ranked before the group


@dataclass(frozen=True)
class Ranks:
    """Ranks of the positives of each query, nearest first, the queries one after another.

    Without ties the rank of a positive is ``above + 1``.
    """

    above: Integers  # for each positive: candidates strictly more similar to the query
    tied: Integers  # for each positive: candidates exactly as similar, the positive itself included
    positives: Integers  # for each query: number of its positives (same class, in the gallery, not itself)
    candidates: Integers  # for each query: number of gallery items it is compared with, not counting itself

    @cached_property
    def query(self) -> Integers:
        """For each positive: the number of its query."""
        return np.repeat(np.arange(len(self.positives)), self.positives)

    @cached_property
    def order(self) -> Integers:
        """For each positive: the number of positives of its query listed before it."""
        firsts = np.cumsum(self.positives) - self.positives
        return np.arange(len(self.above)) - firsts[self.query]

    @cached_property
    def groups(self) -> TiedGroups:
        """The tied groups, ordered by query and rank."""
        if not (self.tied > 1).any():
            return TiedGroups(self.query, self.above, self.tied, self.tied, self.order)
        is_first = np.ones(len(self.above), dtype=bool)
        is_first[1:] = (np.diff(self.query) != 0) | (np.diff(self.above) != 0)
        firsts = np.flatnonzero(is_first)
        counts = np.diff(np.append(firsts, len(self.above)))
        return TiedGroups(self.query[firsts], self.above[firsts], self.tied[firsts], counts, self.order[firsts])

    @cached_property
    def nearest_groups(self) -> TiedGroups:
        """The first tied group of each query that has positives."""
        nearest = np.flatnonzero(self.groups.positives_before == 0)
        return TiedGroups(*(part[nearest] for part in self.groups))

    def optimistic(self) -> "Ranks":
        """The ranks when positives are put before the negatives they tie with."""
        lengths = self.groups.positives
        starts = np.cumsum(lengths) - lengths
        inside = np.arange(len(self.above)) - np.repeat(starts, lengths)
        return Ranks(self.above + inside, np.ones_like(self.tied), self.positives, self.candidates)

    def select(self, queries: Booleans) -> "Ranks":
        """The ranks of the queries where a mask is true."""
        is_selected = queries[self.query]
        return Ranks(self.above[is_selected], self.tied[is_selected], self.positives[queries], self.candidates[queries])

    def sum_by_query(self, query: Integers, terms: Floats) -> Floats:
        """Sums of terms per query; ``query`` is the number of each term's query."""
        return np.bincount(query, weights=terms, minlength=len(self.positives)).astype(np.float64)

    def everywhere(self, k: int) -> Integers:
        """The same cut-off k for each query."""
        return np.full(len(self.positives), k)

    def per_positive(self, sums: Floats) -> Floats:
        """A sum per query divided by its number of positives; 0 for a query without positives."""
        return sums / np.maximum(self.positives, 1)


def rank_positives(table: Table, *, memory: float = 500) -> Ranks:
    """The ranks of all positives of all queries.

    ``memory`` is in MB beyond the embeddings, including what the directions keep. The result depends neither on it nor
    on the number of threads, nor on whether loops are compiled.
    """
    positives = find_positives(table, memory=memory)
    count = count_by_screening if _is_worth_screening(positives) else count_by_sorting
    return in_table_order(positives, count(positives, memory=memory))


def _is_worth_screening(positives: Positives) -> bool:
    queries, gallery = len(positives.query_gallery.queries), len(positives.query_gallery.gallery)
    return (
        IS_COMPILED
        # For fewer pairs, loading or compiling the loops takes longer than it saves.
        and queries * gallery >= _FEW_PAIRS
        # With more thresholds, float32 leaves too much undecided.
        and len(positives.similarities) <= _MANY_POSITIVES * queries
        # The compiled loops number the positives of a query in 16 bits.
        and int(np.diff(positives.starts).max(initial=0)) < 2**15
        # The error bound holds for true float32 products.
        and torch.get_float32_matmul_precision() == "highest"
    )


def in_table_order(positives: Positives, counts: Counts) -> Ranks:
    """The ranks in the order of the table's queries, from counts in the order of the classes."""
    position = np.empty_like(positives.order)
    position[positives.order] = np.arange(len(position))
    sizes = np.diff(positives.starts)[position]
    # Similarities ascend; the nearest positive comes first.
    steps = np.arange(len(positives.similarities)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    source = np.repeat(positives.starts[1:][position], sizes) - 1 - steps
    candidates = positives.query_gallery.candidates()[position]
    return Ranks(counts.above[source], counts.tied[source], sizes, candidates)
