"""What every registered split must do; a new split is tested here by being registered, with one case below."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.contracts.cases import case_of
from tests.helpers.small_runs import write_features
from tests.helpers.two_groups import gaussian_catalogue, ladder_source, start_of
from unseen.core import registry
from unseen.core.config import build, complete, record_of
from unseen.core.errors import ConfigError, UnseenError
from unseen.data import Catalogue, FeatureArray, load_catalogue, split_catalogue
from unseen.shifts import LadderSettings, SwapSchedule, build_ladder, write_ladder

SIDES = ("train", "validation", "test")


def catalogue(classes: int = 40, per_class: int = 3, **columns: Any) -> Catalogue:
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(classes), per_class))
    return Catalogue(
        name="forty",
        reader=FeatureArray(np.arange(len(labels), dtype=np.float32)[:, None]),
        labels=labels,
        class_names=tuple(f"c{label:02}" for label in range(classes)),
        ids=tuple(f"i{item}" for item in range(len(labels))),
        **columns,
    )


def grouped(folder: Path) -> Catalogue:
    plain = catalogue()
    sides = np.where(plain.labels < 20, "train", "test")
    return catalogue(class_groups=tuple(f"g{label % 4}" for label in range(40)), fixed_split=sides)


def joined(folder: Path) -> Catalogue:
    parts = {name: f"features={write_features(folder / f'{name}.npz', seed=len(name))}" for name in ("one", "other")}
    return load_catalogue({"name": "joined", "parts": parts})


def laddered(folder: Path) -> Catalogue:
    data = gaussian_catalogue(per_class=8)
    settings = LadderSettings(schedule=SwapSchedule(swaps=2, easier=0, harder=3, removals=2), rungs=4)
    write_ladder(folder / "ladder.json", build_ladder(ladder_source(data), start_of(data), settings))
    return data


Case = tuple[Callable[[Path], Catalogue], list[dict[str, Any]]]
"""Data that the split can divide, and records of the split; FOLDER stands for a temporary folder."""
CASES: dict[str, Case] = {
    "fraction": (grouped, [{}, {"train": 0.8, "validation": 0.0, "seed": 3}]),
    "first": (grouped, [{}, {"train": 0.3, "seed": 2}]),
    "classes": (
        grouped,
        [
            {"test": ["c00", "c05", "c39"]},
            {"train": ["c00", "c01", "c02", "c03"], "validation": ["c08", "c09"]},
        ],
    ),
    "groups": (grouped, [{"test": ["g1"]}, {"test": ["g1"], "train": ["g2", "g3"], "validation": 0}]),
    "given": (grouped, [{}, {"validation": 0}]),
    "domains": (
        joined,
        [{"train_on": "one", "test_on": "other"}, {"train_on": "one", "test_on": "one", "by": "first"}],
    ),
    "ladder": (laddered, [{"path": "FOLDER/ladder.json", "rung": 2}, {"path": "FOLDER/ladder.json", "rung": 4}]),
}
NAMES = sorted({*registry.split.names(), *CASES})


def prepared(name: str, folder: Path) -> tuple[Catalogue, list[dict[str, Any]]]:
    make, settings = case_of(CASES, name, "tests/contracts/test_split_contract.py")
    records = [
        {
            key: value.replace("FOLDER", str(folder)) if isinstance(value, str) else value
            for key, value in {"name": name, **record}.items()
        }
        for record in settings
    ]
    return make(folder), records


@pytest.mark.parametrize("name", NAMES)
def test_sides_are_class_disjoint_sorted_and_hold_their_classes_completely(name, tmp_path):
    data, records = prepared(name, tmp_path)
    for record in records:
        split = split_catalogue(data, record)
        classes = {side: set(data.labels[getattr(split, side)].tolist()) for side in SIDES}
        assert sum(map(len, classes.values())) == len(set().union(*classes.values()))
        assert min(len(classes["train"]), len(classes["test"])) >= 2
        for side, labels in classes.items():
            items = getattr(split, side)
            assert items.dtype == np.int64
            assert np.array_equal(items, np.flatnonzero(np.isin(data.labels, list(labels))))
            assert split.counts()[side] == {"images": len(items), "classes": len(labels)}
        assert np.array_equal(split.queries, split.test)
        assert np.array_equal(split.gallery, split.test)
        assert "\n" not in split.describe()


@pytest.mark.parametrize("name", NAMES)
def test_a_split_is_deterministic_and_touches_no_global_generator(name, tmp_path):
    data, records = prepared(name, tmp_path)
    for record in records:
        np.random.seed(1)
        first = split_catalogue(data, record)
        state = np.random.get_state(legacy=False)["state"]["key"].copy()
        np.random.seed(2)
        again = split_catalogue(data, record)
        np.random.seed(1)
        assert np.array_equal(np.random.get_state(legacy=False)["state"]["key"], state)
        assert again.fingerprint == first.fingerprint
        for part in (*SIDES, "queries", "gallery"):
            assert np.array_equal(getattr(again, part), getattr(first, part))


FINGERPRINTS = {
    "classes": ["6b75a7f1a7d597ab", "60863c4a27d5c511"],
    "domains": ["76692cd32cb4fc9b", "695526dc5e90709f"],
    "first": ["cdb2780597885845", "a3324b07c5dc7060"],
    "fraction": ["9f2acfd0fef3ba60", "7e4b7009c70e4d65"],
    "given": ["cdb2780597885845", "9db62f056d5a651e"],
    "groups": ["7bb830c7ef5b1918", "227bf0326133f18f"],
}
"""What the splits of these records were in every version so far: a change would make old and new results unlike."""


@pytest.mark.parametrize("name", [name for name in NAMES if name != "ladder"])  # whose sides follow float distances
def test_fingerprints_are_those_of_every_earlier_version(name, tmp_path):
    data, records = prepared(name, tmp_path)
    assert [split_catalogue(data, record).fingerprint for record in records] == case_of(
        FINGERPRINTS, name, "tests/contracts/test_split_contract.py (FINGERPRINTS)"
    )


@pytest.mark.parametrize("name", NAMES)
def test_different_records_are_different_splits(name, tmp_path):
    data, records = prepared(name, tmp_path)
    assert len({split_catalogue(data, record).fingerprint for record in records}) == len(records) > 1


@pytest.mark.parametrize("name", NAMES)
def test_queries_and_gallery_are_the_marked_test_items(name, tmp_path):
    data, records = prepared(name, tmp_path)
    marks = np.arange(len(data)) % 2 == 0
    object.__setattr__(data, "is_query", marks)
    object.__setattr__(data, "is_gallery", ~marks)
    split = split_catalogue(data, records[0])
    assert np.array_equal(split.queries, split.test[split.test % 2 == 0])
    assert np.array_equal(split.gallery, split.test[split.test % 2 == 1])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("classes", [1, 2])
def test_data_that_cannot_be_divided_is_refused_in_one_sentence(name, classes, tmp_path):
    _, records = prepared(name, tmp_path)
    for record in records:
        with pytest.raises(UnseenError) as caught:
            split_catalogue(catalogue(classes=classes), record)
        assert "\n" not in caught.value.message


@pytest.mark.parametrize("name", NAMES)
def test_a_split_survives_its_record_as_json(name, tmp_path):
    data, records = prepared(name, tmp_path)
    for record in records:
        splitter = build(registry.split, record)
        again = json.loads(json.dumps(record_of(registry.split, splitter)))
        assert again == json.loads(json.dumps(complete(registry.split, record)))
        assert split_catalogue(data, again).fingerprint == splitter(data).fingerprint


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_setting_of_any_split_is_refused(name, tmp_path):
    _, records = prepared(name, tmp_path)
    with pytest.raises(ConfigError, match=f"split '{name}' has no setting 'sed'"):
        build(registry.split, {**records[0], "sed": 1})
