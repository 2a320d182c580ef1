"""A rung is a split like any other: for runs, for studies, and only for the data it was built on."""

import numpy as np
import pytest

from tests.helpers.small_runs import settings_for
from tests.helpers.two_groups import gaussian_catalogue, ladder_source, start_of
from unseen.core.errors import ConfigError, DataError
from unseen.data import load_catalogue, split_catalogue
from unseen.runs import prepare, run
from unseen.shifts import LadderSettings, SwapSchedule, build_ladder, read_ladder, write_ladder
from unseen.studies import Plan, plan_cells

SETTINGS = LadderSettings(schedule=SwapSchedule(swaps=2, easier=0, harder=3, removals=2), rungs=4)


@pytest.fixture
def folder(tmp_path):
    """Features and a ladder of them, as files."""
    made = gaussian_catalogue(per_class=8)
    names = np.array(made.class_names)[made.labels]
    np.savez(tmp_path / "features.npz", features=made.reader.features, labels=names)
    catalogue = load_catalogue(f"features={tmp_path / 'features.npz'}")
    ladder = build_ladder(ladder_source(catalogue), start_of(catalogue), SETTINGS)
    write_ladder(tmp_path / "ladder.json", ladder)
    return tmp_path


def catalogue_in(folder):
    return load_catalogue(f"features={folder / 'features.npz'}")


def test_a_rung_gives_the_sides_it_states(folder):
    catalogue, ladder = catalogue_in(folder), read_ladder(folder / "ladder.json")
    for number, rung in enumerate(ladder.rungs, start=1):
        split = split_catalogue(catalogue, f"ladder={folder / 'ladder.json'}:rung={number}")
        for side in ("train", "validation", "test"):
            names = {catalogue.class_names[label] for label in catalogue.labels[getattr(split, side)]}
            assert names == set(getattr(rung, side))
        assert split.facts["class_distance"] == rung.class_distance
        assert split.name == f"rung {number} of 4"


def test_without_validation_its_classes_train(folder):
    split = split_catalogue(catalogue_in(folder), f"ladder={folder / 'ladder.json'}:rung=2,validation=0")
    assert split.classes == {"train": 20, "validation": 0, "test": 20}


def test_other_data_and_other_rungs_are_refused(folder):
    other = gaussian_catalogue(per_class=7)
    with pytest.raises(
        DataError, match="built on other data than two groups: 40 classes differ, the first is 'class 0"
    ):
        split_catalogue(other, f"ladder={folder / 'ladder.json'}:rung=1")
    with pytest.raises(DataError, match="rungs 1 to 4; got 9"):
        split_catalogue(catalogue_in(folder), f"ladder={folder / 'ladder.json'}:rung=9")
    with pytest.raises(ConfigError, match="split 'ladder' needs the setting 'rung'"):
        split_catalogue(catalogue_in(folder), f"ladder={folder / 'ladder.json'}")


def test_a_run_on_a_rung_says_how_far_it_is(folder):
    settings = settings_for(folder / "features.npz", split=f"ladder={folder / 'ladder.json'}:rung=3", epochs=1)
    result = run(settings, folder / "run")
    rung = read_ladder(folder / "ladder.json").rungs[2]
    assert result["protocol"]["split"]["class_distance"] == rung.class_distance
    assert result["protocol"]["split"]["step"] == rung.step


def test_a_study_over_rungs_has_a_cell_for_each(folder):
    plan = Plan.from_mapping(
        {
            "name": "rungs",
            "data": {"groups": {"name": "features", "path": str(folder / "features.npz")}},
            "splits": {f"rung {number}": f"ladder={folder / 'ladder.json'}:rung={number}" for number in range(1, 5)},
            "methods": {"as it is": {"loss": None, "embedding_size": None}},
        }
    )
    cells = plan_cells(plan)
    assert len({cell.config["split_fingerprint"] for cell in cells}) == 4


def test_a_home_folder_stays_out_of_the_recipe(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder))
    settings = settings_for(folder / "features.npz", split=f"ladder={folder / 'ladder.json'}:rung=1")
    assert prepare(settings).recipe.split["path"] == "~/ladder.json"
