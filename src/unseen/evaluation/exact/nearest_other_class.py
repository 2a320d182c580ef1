"""The nearest item of another class for each query, and near-duplicate pairs of items of different classes."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from unseen.core.console import bar_when_long
from unseen.evaluation.exact.arrays import Floats, Integers
from unseen.evaluation.exact.directions import Directions
from unseen.evaluation.exact.inputs import Table
from unseen.evaluation.exact.threads import run_serially
from unseen.evaluation.exact.thresholds import EXCLUDED, error_bound
from unseen.evaluation.exact.tiles import SIDE, ClassSpans, QueryGallery, tiles

# With more undecided pairs in a tile, it is faster to multiply the whole tile again.
_MANY_PAIRS = 2**15
_PAIRS_AT_ONCE = 2048
_ROWS_AT_ONCE = 256
_FEW_ROWS = 8


class Pairs(NamedTuple):
    """Rows of the two items of each pair, and their cosine similarity."""

    first: Integers
    second: Integers
    similarity: Floats


class OtherClassMatches(NamedTuple):
    """The items of other classes that are nearest or nearly identical."""

    nearest: Integers  # for each query of the table: row of its nearest item of another class, -1 if none
    near_duplicates: Pairs  # the most similar pairs of different classes that reach the threshold, each once
    near_duplicate_count: int  # number of such pairs in total


def match_other_classes(
    table: Table, order: Integers, *, count: int, threshold: float, memory: float = 500, side: int = SIDE
) -> OtherClassMatches:
    """Nearest items of another class, and the ``count`` most similar cross-class pairs that reach the threshold.

    ``order`` lists all rows of the table, class by class; the first in it wins a tie. A pair is a query and one of its
    candidates. ``memory`` is in MB beyond the embeddings.
    """
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    by_rank = np.argsort(rank[table.queries])
    gallery = table.gallery[np.argsort(rank[table.gallery])]
    query_gallery = QueryGallery.from_table(table, table.queries[by_rank], gallery)
    search = _Search(query_gallery, table, rank, count, threshold)
    is_symmetric = query_gallery.is_symmetric
    done, total = 0, len(query_gallery.queries) * len(gallery)
    with bar_when_long("failures") as progress:
        for tile in tiles(query_gallery, run_serially, memory=memory, side=side, is_symmetric=is_symmetric):
            query_gallery.exclude(tile.similarity, tile.rows, tile.columns, EXCLUDED)
            search.spans.exclude(tile.similarity, tile.rows, tile.columns, EXCLUDED)
            highest = search.update_nearest(tile.similarity, tile.rows, tile.columns)
            is_mirrored = is_symmetric and tile.rows != tile.columns
            if is_mirrored:
                search.update_nearest(tile.similarity.T, tile.columns, tile.rows)
            search.collect_duplicates(tile.similarity, highest, tile.rows, tile.columns)
            done += tile.similarity.numel() * (1 + is_mirrored)
            progress(done, total, "")
    nearest = np.empty_like(search.nearest)
    nearest[by_rank] = np.where(search.nearest < 0, -1, gallery[search.nearest])
    return OtherClassMatches(nearest, search.near_duplicates, search.near_duplicate_count)


class _Search:
    """The results after the tiles seen so far."""

    def __init__(self, query_gallery: QueryGallery, table: Table, rank: Integers, count: int, threshold: float) -> None:
        self.query_gallery, self.directions = query_gallery, query_gallery.directions
        self.rank, self.count, self.threshold = rank, count, threshold
        self.spans = ClassSpans.of(table.classes[query_gallery.queries], table.classes[query_gallery.gallery])
        is_query, is_item = np.zeros((2, len(rank)), dtype=bool)
        is_query[query_gallery.queries], is_item[query_gallery.gallery] = True, True
        self.is_both = is_query & is_item
        # With products of lower precision than float32 every pair is decided in integers.
        is_float32 = torch.get_float32_matmul_precision() == "highest"
        self.margin = error_bound(self.directions.width, self.directions.inverse_norms) if is_float32 else np.inf
        queries = len(query_gallery.queries)
        self.highest = torch.full((queries,), EXCLUDED, dtype=torch.float32)
        self.exact = np.full(queries, -np.inf)
        self.nearest = np.full(queries, -1)
        self.near_duplicates = Pairs(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0))
        self.near_duplicate_count = 0

    def update_nearest(self, similarity: Tensor, rows: slice, columns: slice) -> Tensor:
        """Update the nearest items of some queries; returns the highest similarity of each in this tile."""
        highest = similarity.amax(dim=1)
        known = torch.maximum(self.highest[rows], highest)
        self.highest[rows] = known
        # -2 is below every similarity and above the value of excluded pairs.
        least = (known.to(torch.float64) - 2 * self.margin).clamp_(min=-2.0).to(torch.float32)
        least = torch.nextafter(least, torch.tensor(-3.0))
        chosen = torch.nonzero(highest >= least).flatten()
        if _FEW_ROWS * len(chosen) > len(highest):
            # Copying most of a tile takes longer than checking all of it.
            chosen = torch.arange(len(highest))
            is_candidate = similarity >= least[:, None]
        else:
            is_candidate = similarity[chosen] >= least[chosen, None]
        if int(torch.count_nonzero(is_candidate)) > _MANY_PAIRS:
            self._update_exactly(chosen.numpy(), rows, columns)
            return highest
        query, item = _positions(is_candidate)
        query, item = chosen.numpy()[query] + rows.start, item + columns.start
        exact, _ = exact_similarities(
            self.directions, self.query_gallery.queries[query], self.query_gallery.gallery[item]
        )
        best = np.lexsort((item, -exact, query))
        best = best[np.append(True, np.diff(query[best]) != 0)[: len(best)]]
        self._take(query[best], item[best], exact[best])
        return highest

    def _update_exactly(self, chosen: Integers, rows: slice, columns: slice) -> None:
        exact = self.query_gallery.exact(rows, columns)
        self.query_gallery.exclude(exact, rows, columns, -np.inf)
        self.spans.exclude(exact, rows, columns, -np.inf)
        # NumPy's argmax is the first of equal ones.
        items = exact.numpy().argmax(axis=1)[chosen]
        self._take(chosen + rows.start, items + columns.start, exact.numpy()[chosen, items])

    def _take(self, query: Integers, item: Integers, exact: Floats) -> None:
        known = self.exact[query]
        is_better = (exact > known) | ((exact == known) & (item < self.nearest[query]))
        query = query[is_better]
        self.exact[query], self.nearest[query] = exact[is_better], item[is_better]

    def collect_duplicates(self, similarity: Tensor, highest: Tensor, rows: slice, columns: slice) -> None:
        """Count the near-duplicates of a tile and keep the most similar."""
        # Lengths differ from 1 by less than the margin: twice it holds for the cosine.
        least = float(np.nextafter(np.float32(max(self.threshold - 2 * self.margin, -2.0)), np.float32(-3)))
        chosen = torch.nonzero(highest >= least).flatten()
        if len(chosen) == 0:
            return
        is_near = similarity[chosen] >= least
        queries, gallery = self.query_gallery.queries[rows], self.query_gallery.gallery[columns]
        if int(torch.count_nonzero(is_near)) > _MANY_PAIRS:
            for start in range(0, len(queries), _ROWS_AT_ONCE):
                part = slice(start, start + _ROWS_AT_ONCE)
                ones, twos = self.directions.integers(queries[part]), self.directions.integers(gallery)
                cosines = _cosines((ones @ twos.T).numpy(), _squares(ones)[:, None] * _squares(twos))
                query, item = np.nonzero((cosines >= self.threshold) & (similarity[part].numpy() > EXCLUDED))
                self._add(queries[part][query], gallery[item], cosines[query, item])
        else:
            query, item = _positions(is_near)
            first, second = queries[chosen.numpy()[query]], gallery[item]
            self._add(first, second, exact_similarities(self.directions, first, second)[1])

    def _add(self, first: Integers, second: Integers, cosine: Floats) -> None:
        # A pair of two rows that are both queries and in the gallery is met twice.
        is_first = self.rank[first] < self.rank[second]
        is_new = (cosine >= self.threshold) & (is_first | ~(self.is_both[first] & self.is_both[second]))
        new = Pairs(
            np.where(is_first, first, second)[is_new], np.where(is_first, second, first)[is_new], cosine[is_new]
        )
        self.near_duplicate_count += len(new.first)
        first, second, cosine = (np.concatenate(parts) for parts in zip(self.near_duplicates, new, strict=True))
        code = self.rank[first] * len(self.rank) + self.rank[second]
        if len(cosine) > self.count:
            # Partitioned, not sorted: a collapsed model has millions of equal pairs.
            last = np.partition(cosine, len(cosine) - self.count)[len(cosine) - self.count]
            above, tied = np.flatnonzero(cosine > last), np.flatnonzero(cosine == last)
            left = self.count - len(above)
            tied = tied[np.argpartition(code[tied], left - 1)[:left]]
            chosen = np.concatenate([above, tied])
            first, second, cosine, code = first[chosen], second[chosen], cosine[chosen], code[chosen]
        best = np.lexsort((code, -cosine))
        self.near_duplicates = Pairs(first[best], second[best], cosine[best])


def _positions(mask: Tensor) -> tuple[Integers, Integers]:
    """Rows and columns where a mask, possibly transposed, is true; read in storage order."""
    if not mask.is_contiguous():
        columns, rows = _positions(mask.T.contiguous())
        return rows, columns
    rows, columns = np.divmod(np.flatnonzero(mask.numpy()), mask.shape[1])
    return rows, columns


def exact_similarities(directions: Directions, queries: Integers, items: Integers) -> tuple[Floats, Floats]:
    """For each pair of rows: the similarity that orders a query's items (`QueryGallery.exact`), and the cosine."""
    exact, cosine = np.empty((2, len(queries)))
    inverse_norms = directions.inverse_norms.numpy()
    for start in range(0, len(queries), _PAIRS_AT_ONCE):
        part = slice(start, start + _PAIRS_AT_ONCE)
        ones, twos = directions.integers(queries[part]), directions.integers(items[part])
        products = (ones * twos).sum(dim=1).numpy()
        exact[part] = products * inverse_norms[items[part]]
        cosine[part] = _cosines(products, _squares(ones) * _squares(twos))
    return exact, cosine


def _squares(integers: Tensor) -> Floats:
    squares: Floats = (integers * integers).sum(dim=1).numpy()
    return squares


def _cosines(products: Floats, squares: Floats) -> Floats:
    # The root of a square is exact: copies have a cosine of exactly 1.
    lengths = np.sqrt(squares)
    return np.clip(np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0), -1.0, 1.0)
