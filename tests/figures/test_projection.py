"""Projections into the plane: deterministic, and sensible for odd points."""

import sys

import numpy as np
import pytest

from unseen.core.randomness import derive, numpy_generator
from unseen.figures.projection import principal, project


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
