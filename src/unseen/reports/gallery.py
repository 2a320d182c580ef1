"""Queries with their nearest neighbours as pictures; right and wrong are marked by sign and colour."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from unseen.core.text import cut, isolated
from unseen.evaluation.report_sample import ReportSample
from unseen.reports.thumbnails import as_grey, drawing_background, photograph, tinted

MOST_QUERIES = 8
MOST_NEIGHBOURS = 8
PIXELS = 56


class Tile(NamedTuple):
    """A picture with its class beneath; `title` is its tool tip, `is_right` is None for a query."""

    uri: str
    is_drawing: bool
    class_name: str
    title: str
    is_right: bool | None = None


class MethodNeighbours(NamedTuple):
    """The neighbours that one method found for a query."""

    method: str
    tiles: tuple[Tile, ...]


class Query(NamedTuple):
    """A query and the neighbours that each method found for it."""

    tile: Tile
    answers: tuple[MethodNeighbours, ...]


class _Pictures(NamedTuple):
    """The thumbnails of one run."""

    queries: np.ndarray | None
    neighbours: np.ndarray | None
    background: int | None


def picture(images: np.ndarray | None, background: int | None, *position: int) -> str:
    """The picture at a position as a data URI; empty where there are no pictures."""
    if images is None:
        return ""
    image = images[position]
    return photograph(image, PIXELS) if background is None else tinted(image, background, (0, 0, 0), PIXELS)


def _pictures(sample: ReportSample) -> _Pictures:
    """Drawings where queries and neighbours both are ink on one background, else photographs."""
    queries = None if sample.query_thumbnails is None else as_grey(sample.query_thumbnails)
    neighbours = sample.neighbour_thumbnails
    backgrounds = [] if queries is None else [drawing_background(queries)]
    if neighbours is not None:
        flat = as_grey(neighbours.reshape(-1, *neighbours.shape[2:]))
        neighbours = flat.reshape(*neighbours.shape[:2], *flat.shape[1:])
        backgrounds.append(drawing_background(flat))
    return _Pictures(queries, neighbours, backgrounds[0] if backgrounds and None not in backgrounds else None)


def _neighbours(sample: ReportSample, pictures: _Pictures, query: int) -> tuple[Tile, ...]:
    tiles = []
    for rank in range(min(MOST_NEIGHBOURS, sample.neighbour_right.shape[1])):
        name = isolated(cut(str(sample.neighbour_names[query, rank]), 200))
        tiles.append(
            Tile(
                uri=picture(pictures.neighbours, pictures.background, query, rank),
                is_drawing=pictures.background is not None,
                class_name=str(sample.neighbour_classes[query, rank]),
                title=f"{rank + 1}. {name}, similarity {float(sample.neighbour_similarity[query, rank]):.3f}",
                is_right=bool(sample.neighbour_right[query, rank]),
            )
        )
    return tuple(tiles)


def gallery(runs: Sequence[tuple[str, ReportSample]]) -> tuple[Query, ...]:
    """The first queries of the first run, with the neighbours that every run found for the query of that name."""
    if not runs or len(runs[0][1].query_names) == 0:
        return ()
    pictures = [_pictures(sample) for _, sample in runs]
    first, own = runs[0][1], pictures[0]
    queries = []
    for position in range(min(MOST_QUERIES, len(first.query_names))):
        name = str(first.query_names[position])
        answers = []
        for (method, sample), thumbnails in zip(runs, pictures, strict=True):
            names = [str(other) for other in sample.query_names]
            if name in names:
                # Names may repeat, so the queries of the first run are taken by position.
                query = position if sample is first else names.index(name)
                answers.append(MethodNeighbours(method, _neighbours(sample, thumbnails, query)))
        uri = picture(own.queries, own.background, position)
        tile = Tile(uri, own.background is not None, str(first.query_classes[position]), isolated(cut(name, 200)))
        queries.append(Query(tile, tuple(answers)))
    return tuple(queries)
