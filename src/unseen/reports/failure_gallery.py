"""Failures as pictures: the worst queries, the most confused classes, near-duplicates across classes."""

from dataclasses import dataclass

from unseen.core.text import cut, isolated
from unseen.evaluation.failure_sample import FailureSample
from unseen.reports.gallery import Tile, picture
from unseen.reports.thumbnails import as_grey, find_ink

MOST_WORST = 6
MOST_COUPLES = 8
MOST_NEAREST = 8


@dataclass(frozen=True)
class WorstQuery:
    """A query, the nearest item of its class with its place, and what comes before that."""

    tile: Tile
    positive: Tile
    place: str
    nearest: tuple[Tile, ...]


@dataclass(frozen=True)
class Couple:
    """Two items of different classes that are too near, with words beneath."""

    one: Tile
    two: Tile
    words: str


@dataclass(frozen=True)
class FailureGallery:
    """All that one run's failures show, with how many there are in all."""

    worst: tuple[WorstQuery, ...]
    confused: tuple[Couple, ...]
    duplicates: tuple[Couple, ...]
    failed: int
    queries: int
    confused_pairs: int
    duplicate_pairs: int
    threshold: str


def failure_gallery(shown: FailureSample) -> FailureGallery:
    """The first failures of each kind."""
    images = None if shown.thumbnails is None else as_grey(shown.thumbnails)
    ink = None if images is None else find_ink(images)

    def tile(item: int, words: str, is_right: bool | None = None) -> Tile:
        name = isolated(cut(str(shown.names[item]), 200))
        return Tile(picture(images, ink, item), ink is not None, str(shown.classes[item]), f"{words}{name}", is_right)

    def near(query: int, item: int, words: str, similarity: float) -> Tile:
        is_right = bool(shown.labels[item] == shown.labels[query])
        found = tile(item, words, is_right)
        return Tile(
            found.uri, found.is_drawing, found.class_name, f"{found.words}, similarity {similarity:.3f}", is_right
        )

    worst = []
    for numbers, similarity, rank in zip(
        *(each[:MOST_WORST].tolist() for each in (shown.worst_items, shown.worst_similarity, shown.worst_rank)),
        strict=True,
    ):
        query, positive, *items = numbers
        nearest = [
            near(query, item, f"{place}. ", similarity[place])
            for place, item in enumerate(items[:MOST_NEAREST], start=1)
        ]
        found = near(query, positive, "", similarity[0])
        worst.append(WorstQuery(tile(query, ""), found, _place(rank), tuple(nearest)))
    confused = [
        Couple(tile(one, ""), tile(two, ""), f"{taken:,} of {every:,} queries")
        for (one, two), (taken, every) in zip(
            shown.confused_items[:MOST_COUPLES].tolist(), shown.confused_queries[:MOST_COUPLES].tolist(), strict=True
        )
    ]
    duplicates = [
        Couple(tile(one, ""), tile(two, ""), f"similarity {similarity:.4f}")
        for (one, two), similarity in zip(
            shown.duplicate_items[:MOST_COUPLES].tolist(),
            shown.duplicate_similarity[:MOST_COUPLES].tolist(),
            strict=True,
        )
    ]
    failed, queries, confused_pairs, duplicate_pairs = (int(total) for total in shown.totals)
    return FailureGallery(
        worst=tuple(worst),
        confused=tuple(confused),
        duplicates=tuple(duplicates),
        failed=failed,
        queries=queries,
        confused_pairs=confused_pairs,
        duplicate_pairs=duplicate_pairs,
        threshold=f"{float(shown.duplicate_threshold):g}",
    )


def _place(rank: float) -> str:
    """A place in words; where items tie it is a mean and need not be whole.

    >>> _place(1234.0), _place(2.5)
    ('1,234', '2.5')
    """
    return f"{rank:,.0f}" if rank == int(rank) else f"{rank:,.1f}"
