"""Joined data: parts keep their items, and a split trains on one part and tests on another."""

from dataclasses import replace

import numpy as np
import pytest

from tests.helpers.present import files_of, image_of, present
from tests.helpers.small_runs import settings_for, write_features, write_images
from unseen.core.errors import ConfigError, DataError
from unseen.data import load_catalogue, split_catalogue
from unseen.data.sources.joined import _joined_marks
from unseen.runs import prepare, run
from unseen.runs.recipe import abbreviate_home


@pytest.fixture
def record(tmp_path):
    """Two files of features: 12 classes of 8 items, and 10 classes of 5."""
    one = write_features(tmp_path / "one.npz")
    other = write_features(tmp_path / "other.npz", classes=10, per_class=5, seed=1)
    return {"name": "joined", "parts": {"one": f"features={one}", "other": {"name": "features", "path": str(other)}}}


def names_on(catalogue, items):
    return {catalogue.class_names[label] for label in catalogue.labels[items]}


def test_items_come_one_part_after_the_other(record):
    catalogue = load_catalogue(record)
    parts = [load_catalogue(part) for part in record["parts"].values()]
    assert len(catalogue) == 96 + 50
    assert catalogue.class_names[:2] == ("one/0", "one/1")
    assert catalogue.class_names[12:14] == ("other/0", "other/1")
    assert np.array_equal(catalogue.features, np.concatenate([part.features for part in parts]))
    for index in (0, 95, 96, 145):
        part, own = (0, index) if index < 96 else (1, index - 96)
        name = parts[part].class_names[parts[part].labels[own]]
        assert catalogue.class_names[catalogue.labels[index]] == f"{list(record['parts'])[part]}/{name}"
        assert catalogue.ids[index].endswith(parts[part].ids[own])
    assert set(present(catalogue.class_groups)) == {"one", "other"}


@pytest.mark.parametrize("by", [None, "first:validation=0", {"name": "fraction", "train": 0.5, "seed": 3}])
def test_each_side_is_that_of_the_part_s_own_split(record, by):
    catalogue = load_catalogue(record)
    own = {label: load_catalogue(part) for label, part in record["parts"].items()}
    for train in own:
        for test in own:
            split = split_catalogue(catalogue, {"name": "domains", "train_on": train, "test_on": test, "by": by})
            for side, label in (("train", train), ("validation", train), ("test", test)):
                part_split = split_catalogue(own[label], by or "fraction")
                expected = {f"{label}/{name}" for name in names_on(own[label], getattr(part_split, side))}
                assert names_on(catalogue, getattr(split, side)) == expected
            assert split.name == f"{train} to {test}"


def test_a_part_that_states_its_split_is_split_so(tmp_path):
    for name in ("a", "b"):
        labels = np.repeat(np.arange(6), 3)
        rows = np.random.default_rng(0).normal(size=(18, 4)).astype(np.float32)
        np.savez(tmp_path / f"{name}.npz", features=rows, labels=labels, split=np.where(labels < 4, "test", "train"))
    parts = {name: f"features={tmp_path / name}.npz" for name in ("a", "b")}
    catalogue = load_catalogue({"name": "joined", "parts": parts})
    given = {"name": "domains", "train_on": "a", "test_on": "b", "by": "given:validation=0"}
    split = split_catalogue(catalogue, given)
    assert names_on(catalogue, split.train) == {"a/4", "a/5"}
    assert names_on(catalogue, split.test) == {"b/0", "b/1", "b/2", "b/3"}


def test_files_are_found_below_the_folder_that_all_parts_share(tmp_path):
    parts = {
        name: f"folder={write_images(tmp_path / name / 'deep', classes=3, per_class=2, seed=seed)}"
        for seed, name in enumerate("ab")
    }
    catalogue = load_catalogue({"name": "joined", "parts": parts})
    assert len(catalogue) == 12
    own = load_catalogue(parts["b"])
    assert files_of(catalogue).path(6).samefile(files_of(own).path(0))
    assert np.array_equal(np.asarray(image_of(catalogue, 11)), np.asarray(image_of(own, 5)))


def test_queries_of_one_part_leave_all_items_of_the_other(record):
    parts = {label: load_catalogue(part) for label, part in record["parts"].items()}
    assert _joined_marks(parts.values(), "is_query") is None
    marks = np.arange(96) % 2 == 0
    parts["one"] = replace(parts["one"], is_query=marks)
    assert np.array_equal(
        present(_joined_marks(parts.values(), "is_query")), np.concatenate([marks, np.ones(50, bool)])
    )


def test_what_cannot_lie_together_is_refused(tmp_path, record):
    one = record["parts"]["one"]
    wide = write_features(tmp_path / "wide.npz", width=11)
    images = write_images(tmp_path / "images", classes=3, per_class=2)
    for parts, words in (
        ({"one": one}, "at least 2 parts"),
        ({"one": one, "wide": f"features={wide}"}, "must have one shape"),
        ({"one": one, "images": f"folder={images}"}, "parts must be of one kind"),
    ):
        with pytest.raises(DataError, match=words):
            load_catalogue({"name": "joined", "parts": parts})
    with pytest.raises(ConfigError, match="is for data of several parts or groups"):
        split_catalogue(load_catalogue(one), "domains:train_on=a,test_on=b")
    with pytest.raises(DataError, match="no part 'othr'; did you mean 'other'"):
        split_catalogue(load_catalogue(record), "domains:train_on=one,test_on=othr")


@pytest.mark.parametrize("by", [None, {"name": "fraction", "train": 0.4, "validation": 0}])
def test_groups_of_plain_data_are_parts_too(tmp_path, by):
    labels = np.repeat(np.arange(120), 3)
    rows = np.random.default_rng(0).normal(size=(360, 4)).astype(np.float32)
    np.savez(tmp_path / "f.npz", features=rows, labels=labels, groups=np.where(labels % 2, "odd", "even"))
    catalogue = load_catalogue(f"features={tmp_path / 'f.npz'}")
    whole = split_catalogue(catalogue, by or "fraction")
    for train in ("odd", "even"):
        for test in ("odd", "even"):
            split = split_catalogue(catalogue, {"name": "domains", "train_on": train, "test_on": test, "by": by})
            for side, group in (("train", train), ("validation", train), ("test", test)):
                expected = {
                    name
                    for name in names_on(catalogue, getattr(whole, side))
                    if present(catalogue.class_groups)[catalogue.class_names.index(name)] == group
                }
                assert names_on(catalogue, getattr(split, side)) == expected
    with pytest.raises(DataError, match="no part 'od'; did you mean 'odd'"):
        split_catalogue(catalogue, "domains:train_on=od,test_on=even")


def test_no_home_path_of_a_part_goes_into_a_file(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    held = abbreviate_home({"name": "joined", "parts": {"a": f"folder={tmp_path}/birds"}}, "data")
    assert held["parts"]["a"] == {"name": "folder", "path": "~/birds"}


def test_a_run_trains_on_one_part_and_tests_on_the_other(record, tmp_path):
    split = {"name": "domains", "train_on": "one", "test_on": "other", "by": "fraction:validation=0"}
    settings = settings_for(tmp_path / "one.npz") | {"data": record, "split": split, "epochs": 1}
    result = run(settings, tmp_path / "run")
    assert result["protocol"]["split"]["train_on"] == "one"
    assert result["scores"]["queries"] == 25
    assert prepare(settings).split.classes == {"train": 6, "validation": 0, "test": 5}
