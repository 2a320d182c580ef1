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

from unseen.evaluation.inputs import Table

Whole = NDArray[np.int64]


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
    candidates   for each query: number of gallery items, the query itself not among them
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
        is_first = np.ones(len(self.above), dtype=bool)
        is_first[1:] = (np.diff(self.query) != 0) | (np.diff(self.above) != 0)
        firsts = np.flatnonzero(is_first)
        counts = np.diff(np.append(firsts, len(self.above)))
        return TiedGroups(self.query[firsts], self.above[firsts], self.tied[firsts], counts, self.order[firsts])

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


def rank_positives(table: Table, *, memory: int = 64, chunk: int | None = None) -> Ranks:
    """The ranks of all positives of all queries, in blocks of queries.

    A block of ``chunk`` queries is compared with the whole gallery; by default as many as ``memory`` (in MB, beyond the
    embeddings) allows. The result does not depend on either, nor on the number of threads.
    """
    # The gallery in the order of its classes: the positives of a query are then one slice.
    gallery = table.gallery[np.argsort(table.classes[table.gallery], kind="stable")]
    items = table.directions.take(gallery)
    classes = table.classes[gallery]
    wanted = table.classes[table.queries]
    starts = np.searchsorted(classes, wanted, side="left")
    sizes = np.searchsorted(classes, wanted, side="right") - starts
    places = np.full(len(table.classes), -1)
    places[gallery] = np.arange(len(gallery))
    own = places[table.queries]
    positives = sizes - (own >= 0)
    offsets = np.cumsum(positives) - positives
    above = np.empty(positives.sum(), dtype=np.int64)
    tied = np.empty_like(above)

    # Queries of one class after the other: a block then holds slices of similar length.
    order = np.argsort(starts, kind="stable")
    for block in _blocks(order, sizes, len(gallery), memory, chunk):
        similarity = (table.directions.units[torch.from_numpy(table.queries[block])] @ items.units.T).numpy()
        similarity *= items.inverse_norms.numpy()
        has_self = np.flatnonzero(own[block] >= 0)
        # Below every similarity, so the query counts neither as a positive nor as a rival.
        similarity[has_self, own[block][has_self]] = -np.inf

        steps = np.arange(sizes[block].max())
        columns = np.minimum(starts[block][:, None] + steps, len(gallery) - 1)
        values = np.take_along_axis(similarity, columns, axis=1)
        values[steps >= sizes[block][:, None]] = -np.inf
        values = np.sort(values, axis=1)[:, ::-1].copy()
        similarity.sort(axis=1)
        rows, wanted_values = torch.from_numpy(similarity), torch.from_numpy(values)
        at_most = torch.searchsorted(rows, wanted_values, right=True).numpy()
        below = torch.searchsorted(rows, wanted_values).numpy()

        is_positive = steps < positives[block][:, None]
        target = (offsets[block][:, None] + steps)[is_positive]
        above[target] = (len(gallery) - at_most)[is_positive]
        tied[target] = (at_most - below)[is_positive]
    return Ranks(above, tied, positives, len(gallery) - (own >= 0).astype(np.int64))


def _blocks(order: Whole, sizes: Whole, gallery: int, memory: int, chunk: int | None) -> list[Whole]:
    if chunk is None:
        # Similarities of this block and of the one before, and about eight arrays as wide as the largest class.
        chunk = max(1, int(memory * 1e6) // (8 * (2 * gallery + 8 * int(sizes.max()))))
    return [order[start : start + chunk] for start in range(0, len(order), chunk)]
