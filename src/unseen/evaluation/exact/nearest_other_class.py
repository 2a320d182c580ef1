"""Where classes meet: the nearest item of another class for each query, and pairs of two classes that are near-copies.

One pass over square tiles of float32 similarities; what those cannot tell is decided in whole numbers. Of equal
similarities the item that comes first in a given order of the rows counts, never the one that is stored first.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unseen.evaluation.exact.directions import Directions
from unseen.evaluation.exact.inputs import Table
from unseen.evaluation.exact.progress import bar_when_long
from unseen.evaluation.exact.threads import at_once
from unseen.evaluation.exact.thresholds import EXCLUDED, error_bound
from unseen.evaluation.exact.tiles import SIDE, Comparison, compare, tiles

Whole = NDArray[np.int64]
Values = NDArray[np.float64]

# More pairs of one tile than this are decided faster by multiplying the whole tile again.
_MANY_PAIRS = 2**15
_PAIRS_AT_ONCE = 2048
_ROWS_AT_ONCE = 256
_FEW_ROWS = 8


class Pairs(NamedTuple):
    """Rows of the two items of each pair, and their cosine similarity."""

    first: Whole
    second: Whole
    similarity: Values


class Crossings(NamedTuple):
    """What `find_crossings` finds.

    ========  =======================================================================================
    nearest   for each query of the table: row of its nearest item of another class, -1 where there is none
    near      the most similar pairs of two classes that reach the threshold, each pair once
    in_all    how many such pairs there are
    ========  =======================================================================================
    """

    nearest: Whole
    near: Pairs
    in_all: int


def find_crossings(
    table: Table, order: Whole, *, count: int, threshold: float, memory: float = 500, side: int = SIDE
) -> Crossings:
    """Nearest items of another class, and the ``count`` nearest pairs of two classes with at least the threshold.

    ``order`` lists all rows of the table, class by class; what comes first in it wins a tie. A pair is a query and an
    item that may answer it. ``memory`` is in MB beyond the embeddings.
    """
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    places = np.argsort(number[table.queries])
    comparison = compare(table, table.queries[places], table.gallery[np.argsort(number[table.gallery])])
    search = _Search(comparison, table, number, count, threshold)
    is_symmetric = comparison.is_symmetric
    with bar_when_long("failures", len(comparison.queries) * len(comparison.gallery)) as progress:
        for tile in tiles(comparison, at_once, memory=memory, side=side, is_symmetric=is_symmetric):
            comparison.exclude(tile.similarity, tile.rows, tile.columns, EXCLUDED)
            search.leave_out_own_class(tile.similarity, tile.rows, tile.columns)
            highest = search.bring_near(tile.similarity, tile.rows, tile.columns)
            is_mirrored = is_symmetric and tile.rows != tile.columns
            if is_mirrored:
                search.bring_near(tile.similarity.T, tile.columns, tile.rows)
            search.collect(tile.similarity, highest, tile.rows, tile.columns)
            progress(tile.similarity.numel() * (1 + is_mirrored))
    nearest = np.empty_like(search.nearest)
    nearest[places] = np.where(search.nearest < 0, -1, comparison.gallery[search.nearest])
    return Crossings(nearest, search.near, search.in_all)


class _Search:
    """What is known after the tiles seen so far."""

    def __init__(self, comparison: Comparison, table: Table, number: Whole, count: int, threshold: float) -> None:
        self.comparison, self.directions = comparison, comparison.directions
        self.number, self.count, self.threshold = number, count, threshold
        self.asked, self.answers = table.classes[comparison.queries], table.classes[comparison.gallery]
        self.firsts = np.searchsorted(self.answers, self.asked)
        self.ends = np.searchsorted(self.answers, self.asked, side="right")
        is_query, is_item = np.zeros((2, len(number)), dtype=bool)
        is_query[comparison.queries], is_item[comparison.gallery] = True, True
        self.is_both = is_query & is_item
        # The bound is that of float32; with coarser products every pair is decided in whole numbers.
        is_single = torch.get_float32_matmul_precision() == "highest"
        self.margin = error_bound(self.directions.width, self.directions.inverse_norms) if is_single else np.inf
        queries = len(comparison.queries)
        self.highest = torch.full((queries,), EXCLUDED, dtype=torch.float32)
        self.exact = np.full(queries, -np.inf)
        self.nearest = np.full(queries, -1)
        self.near = Pairs(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0))
        self.in_all = 0

    def leave_out_own_class(self, similarity: Tensor, rows: slice, columns: slice) -> None:
        """Exclude the items of each query's class; queries of one class stand together, so do its items."""
        bounds = [0, *(np.flatnonzero(np.diff(self.asked[rows])) + 1).tolist(), rows.stop - rows.start]
        for start, stop in pairwise(bounds):
            first = max(int(self.firsts[rows.start + start]), columns.start)
            end = min(int(self.ends[rows.start + start]), columns.stop)
            if first < end:
                similarity[start:stop, first - columns.start : end - columns.start] = EXCLUDED

    def bring_near(self, similarity: Tensor, rows: slice, columns: slice) -> Tensor:
        """Bring the nearest items of some queries up to date; gives the highest similarity of each."""
        highest = similarity.amax(dim=1)
        known = torch.maximum(self.highest[rows], highest)
        self.highest[rows] = known
        # -2 is below every similarity and above what is excluded.
        least = (known.to(torch.float64) - 2 * self.margin).clamp_(min=-2.0).to(torch.float32)
        least = torch.nextafter(least, torch.tensor(-3.0))
        chosen = torch.nonzero(highest >= least).flatten()
        if _FEW_ROWS * len(chosen) > len(highest):
            # Copying most of a tile takes longer than looking at the rest as well.
            chosen = torch.arange(len(highest))
            is_candidate = similarity >= least[:, None]
        else:
            is_candidate = similarity[chosen] >= least[chosen, None]
        if int(torch.count_nonzero(is_candidate)) > _MANY_PAIRS:
            self._bring_near_exactly(chosen.numpy(), rows, columns)
            return highest
        query, item = _places(is_candidate)
        query, item = chosen.numpy()[query] + rows.start, item + columns.start
        exact, _ = exact_similarities(self.directions, self.comparison.queries[query], self.comparison.gallery[item])
        best = np.lexsort((item, -exact, query))
        best = best[np.append(True, np.diff(query[best]) != 0)[: len(best)]]
        self._take(query[best], item[best], exact[best])
        return highest

    def _bring_near_exactly(self, chosen: Whole, rows: slice, columns: slice) -> None:
        exact = self.comparison.exact(rows, columns)
        self.comparison.exclude(exact, rows, columns, -np.inf)
        exact[torch.from_numpy(self.asked[rows])[:, None] == torch.from_numpy(self.answers[columns])] = -np.inf
        # NumPy's argmax is the first of equal ones.
        items = exact.numpy().argmax(axis=1)[chosen]
        self._take(chosen + rows.start, items + columns.start, exact.numpy()[chosen, items])

    def _take(self, query: Whole, item: Whole, exact: Values) -> None:
        known = self.exact[query]
        is_better = (exact > known) | ((exact == known) & (item < self.nearest[query]))
        query = query[is_better]
        self.exact[query], self.nearest[query] = exact[is_better], item[is_better]

    def collect(self, similarity: Tensor, highest: Tensor, rows: slice, columns: slice) -> None:
        """Count and keep the near pairs of a tile."""
        # Lengths differ from 1 by less than the margin: twice it holds for the cosine.
        least = float(np.nextafter(np.float32(max(self.threshold - 2 * self.margin, -2.0)), np.float32(-3)))
        chosen = torch.nonzero(highest >= least).flatten()
        if len(chosen) == 0:
            return
        is_near = similarity[chosen] >= least
        queries, gallery = self.comparison.queries[rows], self.comparison.gallery[columns]
        if int(torch.count_nonzero(is_near)) > _MANY_PAIRS:
            for start in range(0, len(queries), _ROWS_AT_ONCE):
                part = slice(start, start + _ROWS_AT_ONCE)
                cosines = _all_cosines(self.directions, queries[part], gallery)
                query, item = np.nonzero((cosines >= self.threshold) & (similarity[part].numpy() > EXCLUDED))
                self._add(queries[part][query], gallery[item], cosines[query, item])
        else:
            query, item = _places(is_near)
            first, second = queries[chosen.numpy()[query]], gallery[item]
            self._add(first, second, exact_similarities(self.directions, first, second)[1])

    def _add(self, first: Whole, second: Whole, cosine: Values) -> None:
        # A pair whose two items both ask and answer would come twice.
        is_first = self.number[first] < self.number[second]
        kept = (cosine >= self.threshold) & (is_first | ~(self.is_both[first] & self.is_both[second]))
        first, second = np.where(is_first, first, second)[kept], np.where(is_first, second, first)[kept]
        self.in_all += len(first)
        self._keep(Pairs(first, second, cosine[kept]))

    def _keep(self, new: Pairs) -> None:
        first, second, cosine = (np.concatenate(each) for each in zip(self.near, new, strict=True))
        code = self.number[first] * len(self.number) + self.number[second]
        if len(cosine) > self.count:
            # Not all are sorted: a collapsed model has millions of equal pairs.
            last = np.partition(cosine, len(cosine) - self.count)[len(cosine) - self.count]
            above, tied = np.flatnonzero(cosine > last), np.flatnonzero(cosine == last)
            left = self.count - len(above)
            tied = tied[np.argpartition(code[tied], left - 1)[:left]]
            kept = np.concatenate([above, tied])
            first, second, cosine, code = first[kept], second[kept], cosine[kept], code[kept]
        best = np.lexsort((code, -cosine))
        self.near = Pairs(first[best], second[best], cosine[best])


def _places(mask: Tensor) -> tuple[Whole, Whole]:
    """Rows and columns where a mask, or a mask turned over, is true; read in the order in which it is stored."""
    if not mask.is_contiguous():
        columns, rows = _places(mask.T.contiguous())
        return rows, columns
    rows, columns = np.divmod(np.flatnonzero(mask.numpy()), mask.shape[1])
    return rows, columns


def exact_similarities(directions: Directions, queries: Whole, items: Whole) -> tuple[Values, Values]:
    """For each pair of rows: what a query's items are ordered by (`Comparison.exact`), and the cosine."""
    exact, cosine = np.empty((2, len(queries)))
    inverse_norms = directions.inverse_norms.numpy()
    for start in range(0, len(queries), _PAIRS_AT_ONCE):
        part = slice(start, start + _PAIRS_AT_ONCE)
        asked, answers = directions.whole(queries[part]), directions.whole(items[part])
        products = (asked * answers).sum(dim=1).numpy()
        exact[part] = products * inverse_norms[items[part]]
        cosine[part] = _cosines(products, _squares(asked) * _squares(answers))
    return exact, cosine


def _all_cosines(directions: Directions, queries: Whole, items: Whole) -> Values:
    asked, answers = directions.whole(queries), directions.whole(items)
    return _cosines((asked @ answers.T).numpy(), _squares(asked)[:, None] * _squares(answers))


def _squares(whole: Tensor) -> Values:
    squares: Values = (whole * whole).sum(dim=1).numpy()
    return squares


def _cosines(products: Values, squares: Values) -> Values:
    # The root of a square is exact: copies have a cosine of exactly 1.
    lengths = np.sqrt(squares)
    return np.clip(np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0), -1.0, 1.0)
