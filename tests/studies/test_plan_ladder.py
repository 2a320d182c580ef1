"""A ladder that a plan asks for is built once into the study's folder, and anew where anything else is asked for."""

import pytest
import yaml

from tests.helpers.many_groups import SIZES, grouped_catalogue, write_features
from unseen.core.config import read_yaml
from unseen.core.errors import ConfigError, DataError
from unseen.shifts import read_ladder
from unseen.studies import load_plan, plan_cells, shipped_plans
from unseen.studies.plan_ladder import LADDER, with_built_ladder

BUILD = {"by": "groups", "rungs": 3}


@pytest.fixture
def place(tmp_path):
    write_features(tmp_path / "groups.npz", grouped_catalogue())
    return tmp_path


def content_of(place, **record):
    return {
        "name": "climbing",
        "data": {"groups": f"features={place / 'groups.npz'}"},
        "splits": {"halves": "fraction", "rung": {"name": "ladder", "build": BUILD, "rungs": "all", **record}},
        "methods": {"un-trained": {"loss": None, "epochs": 0}, "margin": {"loss": "margin", "epochs": 1}},
        "seeds": [0, 1],
        "base": {"embedding_size": 4},
    }


def test_the_ladder_is_built_once_and_stands_as_a_path(place, capsys):
    made = with_built_ladder(content_of(place), place / "study")
    path = place / "study" / LADDER
    assert made["splits"]["rung"] == {"name": "ladder", "rungs": "all", "path": str(path)}
    assert made["splits"]["halves"] == {"name": "fraction"}
    assert len(read_ladder(path).rungs) == 3
    assert f"built {path}, rungs by distance: mixed " in capsys.readouterr().err
    before = path.stat().st_mtime_ns
    assert with_built_ladder(content_of(place), place / "study") == made
    assert path.stat().st_mtime_ns == before
    assert capsys.readouterr().err == ""


def test_it_is_built_anew_for_other_settings_and_for_other_data(place):
    path = place / LADDER
    hashes = []
    for build in (BUILD, BUILD | {"seed": 1}, {"by": "groups"}, {"by": "groups", "rungs": ["far", "near"]}):
        with_built_ladder(content_of(place, build=build), place)
        hashes.append(read_ladder(path).hash)
    write_features(place / "groups.npz", grouped_catalogue(seed=1))
    with_built_ladder(content_of(place, build=build), place)
    assert len({*hashes, read_ladder(path).hash}) == 5


def test_a_broken_file_in_its_place_is_named(place):
    (place / LADDER).write_text("{}")
    with pytest.raises(DataError, match=r"ladder\.json is not a ladder of splits"):
        with_built_ladder(content_of(place), place)


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"build": "groups"}, "build must be a mapping of settings; got 'groups'"),
        ({"build": {"by": "colour"}}, "by must be one of 'groups'; got 'colour'"),
        ({"build": {"by": "groups", "rung": 3}}, "build has no 'rung'; did you mean 'rungs'"),
        ({"path": "here.json"}, "path and build say the same thing twice"),
    ],
)
def test_what_does_not_say_how_to_build_is_refused(place, record, words):
    with pytest.raises(ConfigError, match=words):
        with_built_ladder(content_of(place, **record), place)
    assert not (place / LADDER).exists()


def test_a_plan_has_one_ladder_to_build_and_one_data_set_to_build_it_on(place):
    content = content_of(place)
    twice = content["splits"] | {"step": content["splits"]["rung"]}
    with pytest.raises(ConfigError, match="a plan builds one ladder"):
        with_built_ladder({**content, "splits": twice}, place)
    with pytest.raises(ConfigError, match="the one data set of a plan"):
        with_built_ladder({**content, "data": content["data"] | {"more": "glyphs"}}, place)


def test_a_plan_is_loaded_with_its_ladder_and_a_given_file_stands_in_its_place(place, monkeypatch):
    monkeypatch.chdir(place)
    (place / "plan.yaml").write_text(yaml.safe_dump(content_of(place, methods=["margin"], seeds=[1])))
    plan = load_plan("plan.yaml")
    assert list(plan.splits)[:2] == ["halves", "rung mixed"]
    assert list(plan.splits)[3:] == ["rung far"]
    ladder = place / "out" / "climbing" / LADDER
    on_rungs = [cell for cell in plan_cells(plan) if cell.split != "halves"]
    assert [(cell.method, cell.seed) for cell in on_rungs] == [("margin", 1)] * 3
    assert on_rungs[0].config["split"] == {
        "name": "ladder",
        "path": "out/climbing/ladder.json",
        "rung": 1,
        "validation": True,
    }
    other = ladder.rename(place / "other.json")
    again = load_plan("plan.yaml", ladder=str(other))
    assert again.splits["rung far"]["path"] == str(other)
    assert not ladder.exists()


def test_the_demo_climbs_scripts_with_some_of_its_methods(place):
    content = read_yaml(shipped_plans()["demo"])
    ladders = [label for label, record in content["splits"].items() if record["name"] == "ladder"]
    content["data"] = {"groups": f"features={place / 'groups.npz'}"}
    content["splits"] = {label: content["splits"][label] for label in ladders}
    content["base"] = {"embedding_size": 4, "model": "identity", "epochs": 1}
    for settings in content["methods"].values():
        settings.pop("model", None)
    (place / "plan.yaml").write_text(yaml.safe_dump(content | {"described": {}}))
    plan = load_plan(str(place / "plan.yaml"), folder=place / "demo")
    assert len(plan.splits) == 4 == len(SIZES), "mixed, and three groups that are large enough"
    cells = plan_cells(plan)
    assert len(cells) == 16, "few enough for a demo"
    assert {"un-trained network"} < {cell.method for cell in cells}
