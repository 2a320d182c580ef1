"""Maps of embeddings: the same for the same points, and something sensible for odd ones."""

from dataclasses import replace

import numpy as np

from tests.helpers.synthetic_content import make_sample
from unseen.core.randomness import derive, numpy_generator
from unseen.reports.embedding_map import SIZE, choose_pictured, choose_points, colour_points, embedding_map


def test_a_sample_holds_whole_classes_and_does_not_depend_on_the_order_of_points():
    labels = np.repeat(np.arange(100), 7)
    chosen = choose_points(labels, 50)
    assert len(chosen) == 49
    assert all((labels[chosen] == label).sum() == 7 for label in set(labels[chosen]))
    backwards = choose_points(labels[::-1], 50)
    assert set(labels[chosen]) == set(labels[::-1][backwards])
    assert len(choose_points(np.zeros(90), 50)) == 50
    assert np.array_equal(choose_points(labels, 700), np.arange(700))


def test_pictures_keep_their_distance():
    places = numpy_generator(derive(0, "places")).uniform(0, SIZE, size=(400, 2))
    taken = choose_pictured(places)
    assert 50 < len(taken) <= 260
    for one in taken:
        assert all(np.abs(places[one] - places[other]).max() > 21 for other in taken if other != one)


def test_groups_colour_where_there_are_two_else_classes():
    sample = make_sample("scripts", noise=1.0, fonts=1)
    everything = np.arange(len(sample.map_labels))
    assert [item.name for item in colour_points(sample, everything)[1]] == ["Armenian", "Georgian"]
    flat = replace(sample, map_groups=np.full(sample.map_groups.shape, ""))
    colours, legend = colour_points(flat, everything)
    assert legend == ()
    assert set(colours) == set(range(6))


def test_embeddings_that_are_not_finite_or_not_there_have_no_map():
    sample = make_sample("scripts", noise=1.0, fonts=1)
    broken = sample.map_embeddings.copy()
    broken[0, 0] = np.nan
    assert embedding_map(replace(sample, map_embeddings=broken), "m") is None
    none = {name: getattr(sample, name)[:0] for name in ("map_embeddings", "map_labels", "map_classes", "map_groups")}
    assert embedding_map(replace(sample, **none, map_thumbnails=None), "m") is None


def test_every_point_is_drawn_once_inside_the_frame():
    sample = make_sample("scripts", noise=1.0, fonts=4)
    view = embedding_map(sample, "m")
    assert view is not None
    assert len(view.points) + len(view.pictures) == view.items == len(sample.map_labels)
    assert all(0 <= picture.x <= SIZE - picture.width for picture in view.pictures)
    assert all(0 <= point.x <= SIZE for point in view.points)
