"""Maps of embeddings: the same for the same points, and something sensible for odd ones."""

import sys
from dataclasses import replace

import numpy as np
import pytest

from tests.helpers.synthetic_content import make_shown
from unseen.core.randomness import derive, numpy_generator
from unseen.figures.projection import principal, project
from unseen.reports.embedding_map import SIZE, draw_map, hues, pictured, sample


def points(count=60, dimensions=8):
    generator = numpy_generator(derive(0, "points"))
    centres = 5 * generator.normal(size=(3, dimensions))
    return centres[np.arange(count) % 3] + 0.1 * generator.normal(size=(count, dimensions))


def test_principal_components_of_points_in_a_plane_keep_their_distances():
    plane = numpy_generator(derive(0, "plane")).normal(size=(20, 2))
    turned = np.zeros((20, 6))
    turned[:, [4, 1]] = plane
    found = principal(turned)
    for one in range(20):
        for other in range(20):
            distance = np.linalg.norm(plane[one] - plane[other])
            assert np.linalg.norm(found[one] - found[other]) == pytest.approx(distance, abs=1e-9)


def test_t_sne_is_named_the_same_twice_and_keeps_clusters_together():
    pytest.importorskip("openTSNE")
    embeddings = points()
    places, how = project(embeddings)
    again, _ = project(embeddings)
    assert how.startswith("t-SNE")
    assert np.array_equal(places, again)
    for index in range(len(places)):
        distances = np.linalg.norm(places - places[index], axis=1)
        distances[index] = np.inf
        assert distances.argmin() % 3 == index % 3


def test_without_open_tsne_principal_components_are_used_and_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "openTSNE", None)
    places, how = project(points())
    assert how == "principal components"
    assert places.shape == (60, 2)


@pytest.mark.parametrize("embeddings", [np.ones((50, 4)), np.zeros((50, 4)), np.ones((1, 4)), np.ones((2, 1))])
def test_equal_or_few_points_are_placed_without_t_sne(embeddings):
    places, how = project(embeddings)
    assert how == "principal components"
    assert np.isfinite(places).all()


def test_a_sample_holds_whole_classes_and_does_not_depend_on_the_order_of_points():
    labels = np.repeat(np.arange(100), 7)
    chosen = sample(labels, 50)
    assert len(chosen) == 49
    assert all((labels[chosen] == label).sum() == 7 for label in set(labels[chosen]))
    backwards = sample(labels[::-1], 50)
    assert set(labels[chosen]) == set(labels[::-1][backwards])
    assert len(sample(np.zeros(90), 50)) == 50
    assert np.array_equal(sample(labels, 700), np.arange(700))


def test_pictures_keep_their_distance():
    places = numpy_generator(derive(0, "places")).uniform(0, SIZE, size=(400, 2))
    taken = pictured(places)
    assert 50 < len(taken) <= 260
    for one in taken:
        assert all(np.abs(places[one] - places[other]).max() > 21 for other in taken if other != one)


def test_groups_colour_where_there_are_two_else_classes():
    shown = make_shown("scripts", noise=1.0, fonts=1)
    everything = np.arange(len(shown.map_labels))
    assert [hue.name for hue in hues(shown, everything)[1]] == ["Armenian", "Georgian"]
    flat = replace(shown, map_groups=np.full(shown.map_groups.shape, ""))
    colours, legend = hues(flat, everything)
    assert legend == ()
    assert set(colours) == set(range(6))


def test_embeddings_that_are_not_finite_or_not_there_have_no_map():
    shown = make_shown("scripts", noise=1.0, fonts=1)
    broken = shown.map_embeddings.copy()
    broken[0, 0] = np.nan
    assert draw_map(replace(shown, map_embeddings=broken), "m") is None
    none = {name: getattr(shown, name)[:0] for name in ("map_embeddings", "map_labels", "map_classes", "map_groups")}
    assert draw_map(replace(shown, **none, map_thumbnails=None), "m") is None


def test_every_point_is_drawn_once_inside_the_frame():
    shown = make_shown("scripts", noise=1.0, fonts=4)
    made, _, _ = draw_map(shown, "m")
    assert len(made.drawing.paths) + len(made.drawing.pictures) == made.points == len(shown.map_labels)
    assert all(0 <= picture.x <= SIZE - picture.width for picture in made.drawing.pictures)
