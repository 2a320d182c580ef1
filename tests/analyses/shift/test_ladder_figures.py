"""Pictures of a ladder: they are whole PNGs, show every rung, and put the same points in the same places."""

import io

import numpy as np
import pytest
from PIL import Image

from tests.helpers.many_groups import grouped_catalogue
from tests.helpers.two_groups import gaussian_catalogue, ladder_source, start_of
from unseen.analyses.shift import ladder_figures
from unseen.analyses.shift.ladder_figures import distance_figure, map_figure, map_points, project_by_umap, shown_rungs
from unseen.figures.style import render_png
from unseen.shifts import LadderSettings, SwapSchedule, build_group_ladder, build_ladder


@pytest.fixture(scope="module")
def catalogue():
    return gaussian_catalogue(mixed=0.3)


@pytest.fixture(scope="module")
def ladder(catalogue):
    settings = LadderSettings(schedule=SwapSchedule(swaps=2, easier=2, harder=3, removals=2), rungs=5)
    return build_ladder(ladder_source(catalogue), start_of(catalogue), settings)


def size_of(png):
    with Image.open(io.BytesIO(png)) as image:
        image.load()
        return image.size


def test_distances_are_drawn_the_same_each_time(ladder):
    png = render_png(lambda: distance_figure(ladder))
    assert size_of(png) == (1800, 920)
    assert render_png(lambda: distance_figure(ladder)) == png


def test_an_easy_a_middle_and_a_hard_rung_are_shown(ladder):
    assert shown_rungs(ladder) == (1, 3, 5)


def test_points_of_a_map_are_the_same_share_of_every_class(catalogue, ladder):
    assert map_points(catalogue, ladder).tolist() == list(range(len(catalogue)))
    some = map_points(catalogue, ladder, max_points=200)
    assert np.bincount(catalogue.labels[some]).tolist() == [5] * 40
    assert (np.diff(some) > 0).all()


def test_points_are_coloured_by_the_side_of_their_class(ladder):
    rung = ladder.rungs[-1]
    names = np.array([rung.train[0], rung.validation[0], rung.test[0], "gone"])
    assert ladder_figures._sides(rung, names).tolist() == [1, 1, 2, 0]


def test_a_map_has_a_panel_for_each_rung(catalogue, ladder):
    names = np.array(catalogue.class_names)[catalogue.labels]
    places = catalogue.reader.features[:, :2]
    for rungs in ((1,), (1, 3, 5)):
        figure = map_figure(ladder, rungs, names, places, "a $look$")
        assert len(figure.axes) == len(rungs)
        assert render_png([figure].pop).startswith(b"\x89PNG")


def test_a_map_by_umap_is_the_same_each_time(catalogue, monkeypatch):
    umap = pytest.importorskip("umap")
    given = {}

    class Quick:
        """The real one compiles for a minute; what it is asked for is what makes it repeatable."""

        def __init__(self, **settings):
            given.update(settings)

        def fit_transform(self, points):
            assert np.allclose(np.linalg.norm(points, axis=1), 1)
            return points[:, :2]

    monkeypatch.setattr(umap, "UMAP", Quick)
    places, method = project_by_umap(catalogue.reader.features[:10])
    assert given == {"n_neighbors": 9, "random_state": 0, "n_jobs": 1}
    assert (places.shape, method) == ((10, 2), "UMAP (9 neighbours)")


def test_a_ladder_by_groups_is_drawn_with_the_classes_of_all_its_rungs():
    catalogue = grouped_catalogue()
    ladder = build_group_ladder(ladder_source(catalogue))
    assert size_of(render_png(lambda: distance_figure(ladder))) == (1800, 920)
    shown = {catalogue.class_names[label] for label in catalogue.labels[map_points(catalogue, ladder)]}
    assert shown >= {name for rung in ladder.rungs for name in rung.test}
