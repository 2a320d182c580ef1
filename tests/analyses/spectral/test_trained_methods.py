"""Spectra of finished runs: those of the trained model on the training classes, at every depth, computed once."""

import json

import numpy as np
import pytest

from tests.helpers.small_runs import image_settings, settings_for, write_features, write_images
from unseen.analyses.spectral.trained_methods import run_spectra
from unseen.core.errors import DataError
from unseen.models import embed
from unseen.runs import load_run, run


def by_numpy(folder):
    """Spectra from the whole model on the inputs themselves, without any cache."""
    prepared, items, model = load_run(folder)
    train = prepared.split.train
    rows = embed(model, items, train).double().numpy()
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    labels = prepared.catalogue.labels[train]

    def shares(table):
        values = np.linalg.svd(table, compute_uv=False)
        return np.pad(values / values.sum(), (0, 35))[:35]

    return shares(rows), np.mean([shares(rows[labels == label]) for label in np.unique(labels)], axis=0)


def test_spectra_are_those_of_the_training_embeddings_and_are_kept(tmp_path):
    run(settings_for(write_features(tmp_path / "features.npz")), tmp_path / "run")
    found = run_spectra(tmp_path / "run")
    values, by_class = by_numpy(tmp_path / "run")
    assert found.values == pytest.approx(values[:6], abs=1e-6)
    assert found.by_class == pytest.approx(by_class, abs=1e-6)
    assert found.rho == pytest.approx(-np.log(6) - np.log(values[:6]).mean(), abs=1e-5)
    kept = tmp_path / "run" / "spectra.json"
    content = json.loads(kept.read_text())
    kept.write_text(json.dumps({**content, "values": [0.5, 0.5]}))
    assert run_spectra(tmp_path / "run").values.tolist() == [0.5, 0.5]
    kept.write_text(json.dumps({**content, "values": [0.5, 0.5], "made_of": {"format": 1, "weights": "others"}}))
    assert run_spectra(tmp_path / "run").values == pytest.approx(values[:6], abs=1e-6)


def test_cached_depths_give_the_spectra_of_the_whole_model(tmp_path):
    images = write_images(tmp_path / "images")
    settings = image_settings(images, depth="frozen")
    run(settings, tmp_path / "run", cache=tmp_path / "cache")
    found = run_spectra(tmp_path / "run", cache=tmp_path / "cache")
    values, by_class = by_numpy(tmp_path / "run")
    assert found.values == pytest.approx(values[:6], abs=1e-4)
    assert found.by_class == pytest.approx(by_class, abs=1e-4)


def test_a_folder_without_weights_is_refused(tmp_path):
    with pytest.raises(DataError, match="holds no trained weights"):
        run_spectra(tmp_path)
