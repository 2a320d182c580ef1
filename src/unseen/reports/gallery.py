"""Queries with their nearest neighbours as pictures, right and wrong marked by sign and colour."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unseen.core.text import cut, isolated
from unseen.evaluation.report_sample import ReportSample
from unseen.reports.thumbnails import Ink, as_grey, find_ink, photograph, tinted

MOST_QUERIES = 8
MOST_NEIGHBOURS = 8
PIXELS = 56


@dataclass(frozen=True)
class Tile:
    """One picture with its class beneath; `is_right` is None for a query."""

    uri: str
    is_drawing: bool
    class_name: str
    words: str
    is_right: bool | None = None


@dataclass(frozen=True)
class Found:
    """The neighbours that one method gave."""

    method: str
    tiles: tuple[Tile, ...]


@dataclass(frozen=True)
class Query:
    """A query and what each method found for it."""

    tile: Tile
    found: tuple[Found, ...]


@dataclass(frozen=True, eq=False)
class _Pictures:
    """The thumbnails of one run, ready to be cut into tiles."""

    queries: np.ndarray | None
    neighbours: np.ndarray | None
    ink: Ink | None


def picture(images: np.ndarray | None, ink: Ink | None, *position: int) -> str:
    """The picture at a position as a data URI; empty where there are no pictures."""
    if images is None:
        return ""
    image = images[position]
    return tinted(image, ink, (0, 0, 0), PIXELS) if ink else photograph(image, PIXELS)


def _pictures(shown: ReportSample) -> _Pictures:
    """Drawings where queries and neighbours both are ink on one background, else photographs."""
    queries = None if shown.query_thumbnails is None else as_grey(shown.query_thumbnails)
    neighbours = shown.neighbour_thumbnails
    inks = [] if queries is None else [find_ink(queries)]
    if neighbours is not None:
        flat = as_grey(neighbours.reshape(-1, *neighbours.shape[2:]))
        neighbours = flat.reshape(*neighbours.shape[:2], *flat.shape[1:])
        inks.append(find_ink(flat))
    return _Pictures(queries, neighbours, inks[0] if inks and None not in inks else None)


def _neighbours(shown: ReportSample, pictures: _Pictures, query: int, method: str) -> Found:
    tiles = []
    for rank in range(min(MOST_NEIGHBOURS, shown.neighbour_right.shape[1])):
        name = isolated(cut(str(shown.neighbour_names[query, rank]), 200))
        tiles.append(
            Tile(
                uri=picture(pictures.neighbours, pictures.ink, query, rank),
                is_drawing=pictures.ink is not None,
                class_name=str(shown.neighbour_classes[query, rank]),
                words=f"{rank + 1}. {name}, similarity {float(shown.neighbour_similarity[query, rank]):.3f}",
                is_right=bool(shown.neighbour_right[query, rank]),
            )
        )
    return Found(method, tuple(tiles))


def gallery(runs: Sequence[tuple[str, ReportSample]]) -> tuple[Query, ...]:
    """The first queries of the first run, with what every run found for the query of that name."""
    if not runs or len(runs[0][1].query_names) == 0:
        return ()
    pictures = [_pictures(shown) for _, shown in runs]
    first, own = runs[0][1], pictures[0]
    queries = []
    for position in range(min(MOST_QUERIES, len(first.query_names))):
        name = str(first.query_names[position])
        found = []
        for (method, shown), drawn in zip(runs, pictures, strict=True):
            known = [str(other) for other in shown.query_names]
            if name in known:
                # Names may repeat: the first run's own queries are taken by position.
                where = position if shown is first else known.index(name)
                found.append(_neighbours(shown, drawn, where, method))
        uri = picture(own.queries, own.ink, position)
        tile = Tile(uri, own.ink is not None, str(first.query_classes[position]), isolated(cut(name, 200)))
        queries.append(Query(tile, tuple(found)))
    return tuple(queries)
