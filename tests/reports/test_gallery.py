"""Queries and what was found for them."""

from dataclasses import replace

import numpy as np

from tests.helpers.synthetic_content import make_sample
from unseen.reports.gallery import MOST_NEIGHBOURS, MOST_QUERIES, gallery


def test_the_same_query_is_shown_for_every_run_by_its_name():
    first = make_sample("scripts", noise=0.5, fonts=2, queries=4)
    order = np.array([2, 0, 3])
    lines = ("query_names", "query_classes", "neighbour_names", "neighbour_classes", "neighbour_right")
    more = ("neighbour_similarity", "query_thumbnails", "neighbour_thumbnails")
    second = replace(first, **{name: getattr(first, name)[order] for name in (*lines, *more)})
    queries = gallery([("a", first), ("b", second)])
    assert [len(query.answers) for query in queries] == [2, 1, 2, 2]
    for query in queries:
        assert len({answer.tiles for answer in query.answers}) == 1


def test_marks_and_names_are_those_of_the_arrays():
    sample = make_sample("scripts", noise=1.5, fonts=2, queries=3, neighbours=4)
    for position, query in enumerate(gallery([("a", sample)])):
        tiles = query.answers[0].tiles
        assert [tile.is_right for tile in tiles] == sample.neighbour_right[position].tolist()
        assert [tile.class_name for tile in tiles] == sample.neighbour_classes[position].tolist()
        assert query.tile.class_name == sample.query_classes[position]
        assert query.tile.is_right is None


def test_large_galleries_are_cut():
    sample = make_sample("scripts", noise=1.5, fonts=2, queries=20, neighbours=12)
    queries = gallery([("a", sample)])
    assert len(queries) == MOST_QUERIES
    assert len(queries[0].answers[0].tiles) == MOST_NEIGHBOURS


def test_colour_images_and_none_at_all_are_fine():
    sample = make_sample("scripts", noise=1.5, fonts=2, queries=2, neighbours=2)
    colour = np.zeros((2, 2, 8, 8, 3), dtype=np.uint8)
    colour[..., 0] = 200
    painted = replace(sample, query_thumbnails=colour[:, 0], neighbour_thumbnails=colour)
    assert not gallery([("a", painted)])[0].tile.is_drawing
    bare = replace(sample, query_thumbnails=None, neighbour_thumbnails=None)
    assert gallery([("a", bare)])[0].tile.uri == ""
    assert gallery([]) == ()
