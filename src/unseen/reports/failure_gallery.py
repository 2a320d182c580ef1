"""Failures as pictures: the worst queries, the most confused classes, near-duplicates across classes."""

from itertools import islice
from typing import NamedTuple

from unseen.core.text import cut, isolated
from unseen.evaluation.failure_sample import FailureSample
from unseen.reports.gallery import Tile, picture
from unseen.reports.thumbnails import as_grey, drawing_background

MOST_WORST = 6
MOST_PAIRS = 8
MOST_NEAREST = 8


class WorstQuery(NamedTuple):
    """A query, the nearest item of its class with its rank, and the items before that."""

    tile: Tile
    positive: Tile
    rank: str
    nearest: tuple[Tile, ...]


class ItemPair(NamedTuple):
    """Two items of different classes that are too similar, with a caption beneath."""

    one: Tile
    two: Tile
    caption: str


class FailureGallery(NamedTuple):
    """The first failures of one run, with the total of each kind."""

    worst: list[WorstQuery]
    confused: list[ItemPair]
    duplicates: list[ItemPair]
    threshold: str
    failed: int
    queries: int
    confused_pairs: int
    duplicate_pairs: int


def failure_gallery(sample: FailureSample) -> FailureGallery:
    """The first failures of each kind."""
    images = None if sample.thumbnails is None else as_grey(sample.thumbnails)
    background = None if images is None else drawing_background(images)

    def tile(item: int, before: str = "", after: str = "", is_right: bool | None = None) -> Tile:
        title = f"{before}{isolated(cut(str(sample.names[item]), 200))}{after}"
        uri = picture(images, background, item)
        return Tile(uri, background is not None, str(sample.classes[item]), title, is_right)

    def worst_query(items: list[int], similarities: list[float], rank: float) -> WorstQuery:
        query, positive, *nearest = items

        def neighbour(item: int, before: str, similarity: float) -> Tile:
            is_right = bool(sample.labels[item] == sample.labels[query])
            return tile(item, before, f", similarity {similarity:.3f}", is_right)

        return WorstQuery(
            tile(query),
            neighbour(positive, "", similarities[0]),
            _rank_text(rank),
            tuple(
                neighbour(item, f"{position}. ", similarities[position])
                for position, item in enumerate(nearest[:MOST_NEAREST], start=1)
            ),
        )

    worst = zip(sample.worst_items.tolist(), sample.worst_similarity.tolist(), sample.worst_rank.tolist(), strict=True)
    confused = zip(sample.confused_items.tolist(), sample.confused_queries.tolist(), strict=True)
    duplicates = zip(sample.duplicate_items.tolist(), sample.duplicate_similarity.tolist(), strict=True)
    confused_pairs = [
        ItemPair(tile(one), tile(two), f"{wrong:,} of {total:,} queries")
        for (one, two), (wrong, total) in islice(confused, MOST_PAIRS)
    ]
    duplicate_pairs = [
        ItemPair(tile(one), tile(two), f"similarity {similarity:.4f}")
        for (one, two), similarity in islice(duplicates, MOST_PAIRS)
    ]
    worst_queries = [worst_query(*one) for one in islice(worst, MOST_WORST)]
    threshold = f"{float(sample.duplicate_threshold):g}"
    return FailureGallery(worst_queries, confused_pairs, duplicate_pairs, threshold, *map(int, sample.totals))


def _rank_text(rank: float) -> str:
    """A rank; where items tie it is a mean and need not be an integer.

    >>> _rank_text(1234.0), _rank_text(2.5)
    ('1,234', '2.5')
    """
    return f"{rank:,.0f}" if rank == int(rank) else f"{rank:,.1f}"
