"""The engine of a run: resolved when the recipe is made, recorded, in the key of the cache, equal within rounding."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.small_runs import image_settings, settings_for, write_features, write_images
from unseen.core.errors import ConfigError
from unseen.models.engine import TOLERANCE, has_onnx
from unseen.runs import engine_of_run, load_run, prepare, recipe, run

needs_onnx = pytest.mark.skipif(not has_onnx(), reason="the extra onnx is not installed")


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("torchvision")
    return write_images(tmp_path_factory.mktemp("engines") / "images")


def test_auto_is_resolved_when_the_recipe_is_made(images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def fastest(count: int, shape: tuple[int, ...]) -> str:
        asked.append((count, shape))
        return "onnx"

    assert prepare(image_settings(images)).recipe.engine == "torch", "60 small images are not worth a conversion"
    monkeypatch.setattr(recipe, "fastest_engine", fastest)
    prepared = prepare(image_settings(images, depth="frozen", views=3))
    assert prepared.recipe.engine == "onnx"
    split = prepared.split
    # Each view of a training image goes through the network, and every other image once.
    assert asked == [(len(split.test) + len(split.validation) + 3 * len(split.train), (3, 16, 16))]
    assert prepare(image_settings(images) | {"model": "xception41"}).recipe.engine == "torch", "no test exports it"
    assert prepare(prepared.recipe.to_mapping()).recipe == prepared.recipe
    assert prepare(image_settings(images, engine="torch")).recipe.engine == "torch"


def test_features_are_never_worth_a_conversion(tmp_path: Path) -> None:
    assert prepare(settings_for(write_features(tmp_path / "features.npz"))).recipe.engine == "torch"


def test_an_unknown_engine_is_refused(images: Path) -> None:
    with pytest.raises(ConfigError, match="engine"):
        prepare(image_settings(images, engine="tensorrt"))


def test_an_engine_that_is_not_installed_is_refused_before_anything_is_written(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unseen.models.engine.has_onnx", lambda: False)
    with pytest.raises(ConfigError, match="not installed"):
        run(image_settings(images, engine="onnx"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@needs_onnx
def test_both_engines_give_the_same_run_within_rounding(images: Path, tmp_path: Path) -> None:
    results: dict[str, dict[str, Any]] = {}
    for engine in ("torch", "onnx"):
        settings = image_settings(images, depth="frozen", engine=engine, loss=None, embedding_size=None)
        results[engine] = run(settings, tmp_path / engine, cache=tmp_path / "cache")
        assert results[engine]["protocol"]["engine"] == {"cache": engine, "test": "torch"}
    caches = {
        json.loads(path.read_text())["engine"]: np.load(path.parent / "rows.npy")
        for path in (tmp_path / "cache").glob("*/key.json")
    }
    lengths = np.linalg.norm(caches["torch"], axis=1, keepdims=True)
    assert (np.abs(caches["torch"] - caches["onnx"]) <= TOLERANCE * lengths).all()
    assert not np.array_equal(caches["torch"], caches["onnx"]), "two engines, two caches"


def test_a_finished_run_is_embedded_by_its_own_engine(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(image_settings(images, depth="full", loss=None), tmp_path / "run")
    own = load_run(tmp_path / "run").prepared.recipe
    monkeypatch.setattr("unseen.runs.run_recipe.has_onnx", lambda: True)
    by_onnx = own.model_copy(update={"engine": "onnx"})
    assert [engine_of_run(own, "auto"), engine_of_run(own, "onnx")] == ["torch", "onnx"]
    assert [engine_of_run(by_onnx, "auto"), engine_of_run(by_onnx, "torch")] == ["onnx", "torch"]
    monkeypatch.setattr("unseen.runs.run_recipe.has_onnx", lambda: False)
    assert engine_of_run(by_onnx, "auto") == "torch"
