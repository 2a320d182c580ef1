"""What every registered data set must do; a new one is tested here by being registered, with one case below."""

import csv
import importlib
import json
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from PIL import Image

from tests.contracts.cases import case_of
from tests.data.sources import test_cars196, test_cub200, test_inshop, test_sop
from tests.helpers.small_runs import settings_for, write_features, write_images
from unseen.core import registry
from unseen.core.config import complete
from unseen.core.errors import ConfigError, DataError
from unseen.data import Catalogue, ImageFiles, load_catalogue
from unseen.runs import prepare, run


class Case(NamedTuple):
    """How to write a small copy into a folder, and a record of other content for data sets without files."""

    write: Callable[[Path], dict[str, Any]]
    other_settings: dict[str, Any] | None = None


def folder(place: Path) -> dict[str, Any]:
    return {"path": str(write_images(place / "images", classes=4, per_class=3))}


def table(place: Path) -> dict[str, Any]:
    images = write_images(place / "images", classes=4, per_class=3)
    with open(place / "table.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "label"])
        writer.writerows([path.relative_to(place), path.parent.name] for path in sorted(images.rglob("*.png")))
    return {"path": str(place / "table.csv")}


def features(place: Path) -> dict[str, Any]:
    return {"path": str(write_features(place / "features.npz"))}


def joined(place: Path) -> dict[str, Any]:
    for name in ("one", "other"):
        (place / name).mkdir()
    return {"parts": {name: {"name": "features", **features(place / name)} for name in ("one", "other")}}


def glyphs(place: Path) -> dict[str, Any]:
    return {"size": 8, "cache": str(place / "cache")}


def cub200(place: Path) -> dict[str, Any]:
    return {"path": str(test_cub200.official(place / "cub"))}


def sop(place: Path) -> dict[str, Any]:
    return {"path": str(test_sop.official(place / "sop"))}


def inshop(place: Path) -> dict[str, Any]:
    return {"path": str(test_inshop.official(place / "inshop"))}


def cars196(place: Path) -> dict[str, Any]:
    rows = test_cars196.rows_below("car_ims/")
    test_cars196.save_annotations(place / "cars_annos.mat", rows, "relative_im_path", "test")
    for path, _ in rows:
        test_cars196.jpeg(place / path)
    return {"path": str(place)}


CASES = {
    "folder": Case(folder),
    "table": Case(table),
    "features": Case(features),
    "glyphs": Case(glyphs, other_settings={"seed": 1}),
    "cub200": Case(cub200),
    "cars196": Case(cars196),
    "sop": Case(sop),
    "inshop": Case(inshop),
    "joined": Case(joined),
}
NAMES = sorted({*registry.data.names(), *CASES})


@pytest.fixture(autouse=True)
def few_glyphs(monkeypatch, tmp_path):
    """Three characters, so that rendering takes no time; checksums in a folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user cache"))
    few = {letter: ["DejaVuSans", "DejaVuSerif-Italic", "STIXGeneral"] for letter in "AbЖ"}
    monkeypatch.setattr(importlib.import_module("unseen.data.sources.glyphs"), "choose_classes", lambda paths: few)


def written(name: str, place: Path) -> dict[str, Any]:
    place.mkdir(parents=True, exist_ok=True)
    return {"name": name, **case_of(CASES, name, "tests/contracts/test_data_contract.py").write(place)}


def change_content(catalogue: Catalogue, record: dict[str, Any]) -> dict[str, Any]:
    """The record after one item got another content, under the same ids and classes."""
    other = CASES[record["name"]].other_settings
    if other is not None:
        return {**record, **other}
    if isinstance(catalogue.reader, ImageFiles):
        Image.new("RGB", (7, 9), "blue").save(catalogue.reader.path(0))
        return record
    part = record if "path" in record else next(iter(record["parts"].values()))
    with np.load(part["path"]) as archive:
        arrays = dict(archive)
    arrays["features"][0, 0] += 1
    np.savez(part["path"], **arrays)
    return record


@pytest.mark.parametrize("name", NAMES)
def test_labels_are_contiguous_and_ids_unique(name, tmp_path):
    catalogue = load_catalogue(written(name, tmp_path))
    assert catalogue.labels.dtype == np.int64
    assert set(catalogue.labels.tolist()) == set(range(len(catalogue.class_names)))
    assert len(set(catalogue.ids)) == len(catalogue.ids) == len(catalogue) == len(catalogue.reader)
    assert len(set(catalogue.class_names)) == len(catalogue.class_names) >= 2
    for column in (catalogue.fixed_split, catalogue.is_query, catalogue.is_gallery):
        assert column is None or column.shape == (len(catalogue),)
    assert catalogue.class_groups is None or len(catalogue.class_groups) == len(catalogue.class_names)
    for text in (*catalogue.ids, *catalogue.class_names, *catalogue.notes, catalogue.describe()):
        text.encode()  # valid Unicode, whatever the file names are
        assert "\n" not in text
    image = catalogue.reader.image(0)
    assert image is None or image.mode == "RGB"


@pytest.mark.parametrize("name", NAMES)
def test_the_fingerprint_follows_the_content_and_not_the_reading(name, tmp_path):
    record = written(name, tmp_path)
    first, second = load_catalogue(record), load_catalogue(record)
    assert first.fingerprint == second.fingerprint
    assert (first.ids, first.class_names) == (second.ids, second.class_names)
    assert np.array_equal(first.labels, second.labels)
    changed = load_catalogue(change_content(first, record))
    assert changed.ids == first.ids
    assert changed.fingerprint != first.fingerprint


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_path_is_one_sentence_with_a_hint(name, tmp_path):
    record = written(name, tmp_path / "there")
    nowhere = str(tmp_path / "nowhere")
    if "parts" in record:
        record["parts"]["one"] = {**record["parts"]["one"], "path": nowhere}
    elif "path" in record:
        record["path"] = nowhere
    else:
        assert not any(key == "path" for key in complete(registry.data, record)), "a path must be written by the case"
        return
    with pytest.raises(DataError) as caught:
        load_catalogue(record)
    assert nowhere in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.message.endswith("."), "a hint is a full sentence"


@pytest.mark.parametrize("name", NAMES)
def test_a_record_survives_json_and_is_complete(name, tmp_path):
    record = written(name, tmp_path)
    full = complete(registry.data, record)
    again = json.loads(json.dumps(full))
    assert complete(registry.data, again) == full
    assert load_catalogue(again).fingerprint == load_catalogue(record).fingerprint


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_setting_of_any_data_set_is_refused(name, tmp_path):
    with pytest.raises(ConfigError, match=f"data '{name}' has no setting 'pathh'"):
        load_catalogue({**written(name, tmp_path), "pathh": "x"})


TOY = '''
"""A toy data set: points around the corners of a cube."""

import numpy as np

from unseen.core.registry import data
from unseen.data.catalogue import Catalogue
from unseen.data.item_readers import FeatureArray


@data("toy_cube")
def toy_cube(*, per_class: int = 6, seed: int = 0) -> Catalogue:
    """Gaussian points around the eight corners of a cube."""
    corners = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], np.float32)
    labels = np.repeat(np.arange(8), per_class)
    noise = np.random.Generator(np.random.Philox(seed)).normal(size=(len(labels), 3))
    return Catalogue(
        name="toy cube",
        reader=FeatureArray((corners[labels] + 0.2 * noise).astype(np.float32)),
        labels=labels,
        class_names=tuple(f"corner {label}" for label in range(8)),
        ids=tuple(f"point {number}" for number in range(len(labels))),
    )
'''


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """One new file in the folder of `unseen.data.sources` (here in a second folder of the same package)."""
    folder = tmp_path / "unseen" / "data" / "sources"
    folder.mkdir(parents=True)
    (folder / "toy_cube.py").write_text(textwrap.dedent(TOY))
    top, package = importlib.import_module("unseen"), importlib.import_module("unseen.data.sources")
    assert top.__spec__ is not None
    monkeypatch.setattr(top.__spec__, "submodule_search_locations", [*top.__path__, str(tmp_path / "unseen")])
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
    monkeypatch.delitem(registry.data.__dict__, "_shipped", raising=False)
    yield
    registry.data.__dict__.pop("_shipped", None)
    registry.data._loaded.pop("toy_cube", None)
    sys.modules.pop("unseen.data.sources.toy_cube", None)


def test_adding_a_data_set_is_one_new_file(toy, tmp_path):
    assert "toy_cube" in registry.data.names()
    assert registry.data.entry("toy_cube").summary == "Gaussian points around the eight corners of a cube."
    catalogue = load_catalogue("toy_cube:per_class=9")
    assert (len(catalogue), catalogue.class_names[1]) == (72, "corner 1")
    with pytest.raises(ConfigError, match="unknown data 'toy_cub'; did you mean 'toy_cube'"):
        load_catalogue("toy_cub")
    settings = {**settings_for(tmp_path), "data": "toy_cube:per_class=9", "epochs": 1}
    result = run(prepare(settings), tmp_path / "run")
    assert result["scores"]


def test_a_data_set_without_a_case_fails_the_contract(toy, tmp_path):
    with pytest.raises(pytest.fail.Exception, match=r"'toy_cube' is registered and has no case.*Add one to CASES in"):
        written("toy_cube", tmp_path)
