"""Pooled features of a catalogue: the file's own, or a backbone's, computed once."""

import numpy as np
import pytest

from tests.helpers.small_runs import write_features, write_images
from unseen.data import FeatureArray, load_catalogue
from unseen.runs.frozen_features import made_by, pooled_features


def test_features_in_a_file_are_taken_as_they_are(tmp_path):
    path = write_features(tmp_path / "features.npz")
    found = pooled_features({"data": f"features={path}"})
    assert isinstance(found.catalogue.reader, FeatureArray)
    assert found.features is found.catalogue.reader.features
    assert made_by(found.recipe) == {
        "model": {"name": "identity"},
        "transform": None,
        "seed": 0,
    }


def test_a_backbone_gives_a_row_for_each_image_from_a_cache(tmp_path, monkeypatch):
    pytest.importorskip("torchvision")
    write_images(tmp_path / "images")
    settings = {"data": f"folder={tmp_path / 'images'}", "model": "convnet", "transform": "plain:size=16"}
    found = pooled_features(settings, cache=tmp_path / "cache")
    assert len(found.features) == len(load_catalogue(settings["data"]))
    assert found.features.ndim == 2
    assert np.isfinite(found.features).all()
    again = pooled_features({"data": settings["data"], **made_by(found.recipe)}, cache=tmp_path / "cache")
    assert (again.features == found.features).all()
    # What the ladder keeps makes the same features: their cache is used, not filled again.
    assert len(list((tmp_path / "cache").iterdir())) == 1
