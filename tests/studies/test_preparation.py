"""Loading a plan computes nothing; preparing it builds its ladder once, and anew where anything else is asked for."""

from pathlib import Path

import pytest
import yaml

from tests.helpers.many_groups import SIZES, grouped_catalogue, write_features
from unseen.core.errors import ConfigError, DataError
from unseen.shifts import read_ladder
from unseen.studies import Plan, load_plan, plan_cells, prepare_study
from unseen.studies.preparation import LADDER

BUILD = {"by": "groups", "rungs": 3}


@pytest.fixture
def folder(tmp_path):
    write_features(tmp_path / "groups.npz", grouped_catalogue())
    return tmp_path


def content_of(folder, **record):
    return {
        "name": "climbing",
        "data": {"groups": f"features={folder / 'groups.npz'}"},
        "splits": {"halves": "fraction", "rung": {"name": "ladder", "build": BUILD, "rungs": "all", **record}},
        "methods": {"untrained": {"loss": None, "epochs": 0}, "margin": {"loss": "margin", "epochs": 1}},
        "seeds": [0, 1],
        "base": {"embedding_size": 4},
    }


def prepared(content, folder):
    return prepare_study(Plan.from_mapping(content), folder)


def test_the_ladder_is_built_once_and_its_rungs_are_splits(folder, capsys):
    plan = prepared(content_of(folder), folder / "study")
    path = folder / "study" / LADDER
    assert list(plan.splits) == ["halves", "rung mixed", "rung middle", "rung far"]
    assert plan.splits["rung far"] == {"name": "ladder", "path": str(path), "rung": 3}
    assert plan.splits["halves"] == {"name": "fraction"}
    assert len(read_ladder(path).rungs) == 3
    assert f"built {path}, rungs by distance: mixed " in capsys.readouterr().err
    before = path.stat().st_mtime_ns
    assert prepared(content_of(folder), folder / "study") == plan
    assert path.stat().st_mtime_ns == before
    assert capsys.readouterr().err == ""


def test_it_is_built_anew_for_other_settings_and_for_other_data(folder):
    path = folder / LADDER
    hashes = []
    for build in (BUILD, BUILD | {"seed": 1}, {"by": "groups"}, {"by": "groups", "rungs": ["far", "near"]}):
        prepared(content_of(folder, build=build), folder)
        hashes.append(read_ladder(path).hash)
    write_features(folder / "groups.npz", grouped_catalogue(seed=1))
    prepared(content_of(folder, build=build), folder)
    assert len({*hashes, read_ladder(path).hash}) == 5


def test_a_broken_file_in_its_place_is_named(folder):
    (folder / LADDER).write_text("{}")
    with pytest.raises(DataError, match=r"ladder\.json is not a ladder of splits"):
        prepared(content_of(folder), folder)


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"build": "groups"}, "build must be a mapping; got 'groups'"),
        ({"build": {"by": "colour"}}, "by must be one of 'groups'; got 'colour'"),
        ({"build": {"by": "groups", "rung": 3}}, "build: unknown setting 'rung'; did you mean 'rungs'"),
        ({"path": "here.json"}, "path and build exclude each other"),
    ],
)
def test_wrong_build_settings_are_refused_before_anything_is_computed(folder, record, words):
    with pytest.raises(ConfigError, match=words):
        prepared(content_of(folder, **record), folder)
    assert not (folder / LADDER).exists()


def test_a_plan_has_one_ladder_to_build_and_one_data_set_to_build_it_on(folder):
    content = content_of(folder)
    twice = content["splits"] | {"step": content["splits"]["rung"]}
    with pytest.raises(ConfigError, match="a plan builds one ladder"):
        prepared({**content, "splits": twice}, folder)
    with pytest.raises(ConfigError, match="the only data set of a plan"):
        prepared({**content, "data": content["data"] | {"more": "glyphs"}}, folder)


def test_a_plan_is_prepared_with_its_ladder_and_a_stated_file_replaces_it(folder, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "plan.yaml").write_text(yaml.safe_dump(content_of(folder, methods=["margin"], seeds=[1])))
    plan = load_plan("plan.yaml")
    plan = prepare_study(plan, Path("out") / plan.name)
    assert list(plan.splits)[:2] == ["halves", "rung mixed"]
    assert list(plan.splits)[3:] == ["rung far"]
    ladder = folder / "out" / "climbing" / LADDER
    on_rungs = [cell for cell in plan_cells(plan) if cell.split != "halves"]
    assert [(cell.method, cell.seed) for cell in on_rungs] == [("margin", 1)] * 3
    assert on_rungs[0].config["split"] == {
        "name": "ladder",
        "path": "out/climbing/ladder.json",
        "rung": 1,
        "validation": True,
    }
    other = ladder.rename(folder / "other.json")
    again = prepare_study(load_plan("plan.yaml", ladder=str(other)), folder)
    assert again.splits["rung far"]["path"] == str(other)
    assert not ladder.exists()


def test_the_demo_climbs_scripts_with_some_of_its_methods(folder):
    content = load_plan("demo-all").to_mapping()
    ladders = [label for label, record in content["splits"].items() if record["name"] == "ladder"]
    content["data"] = {"groups": f"features={folder / 'groups.npz'}"}
    content["splits"] = {label: content["splits"][label] for label in ladders}
    content["base"] = {"embedding_size": 4, "model": "identity", "epochs": 1}
    for settings in content["methods"].values():
        settings.pop("model", None)
    (folder / "plan.yaml").write_text(yaml.safe_dump(content | {"described": {}}))
    plan = prepare_study(load_plan(str(folder / "plan.yaml")), folder / "demo")
    assert len(plan.splits) == 4 == len(SIZES), "mixed, and three groups that are large enough"
    cells = plan_cells(plan)
    assert len(cells) == 16, "few enough for a demo"
    assert {"untrained network"} < {cell.method for cell in cells}


@pytest.mark.parametrize("name", ["demo-all", "capacity-glyphs", "ladder-frozen", "transfer"])
def test_loading_a_plan_reads_no_data_and_writes_nothing(tmp_path, monkeypatch, name):
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("loading a plan must not compute")

    for function in (
        "unseen.data.catalogue.load_catalogue",
        "unseen.runs.recipe.load_catalogue",
        "unseen.studies.cells.load_catalogue",
        "unseen.studies.preparation.prepare_pooled",
        "unseen.studies.preparation.write_ladder",
        "unseen.studies.preparation.read_ladder",
        "unseen.studies.expand_splits.read_ladder",
    ):
        monkeypatch.setattr(function, refuse)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    plan = load_plan(name)
    assert plan.unexpanded_splits
    assert not list(tmp_path.iterdir())


def test_a_skip_rule_may_name_a_rung_that_is_not_built_yet(folder):
    rule = {"split": "rung far", "method": "margin", "why": "too far"}
    plan = prepared({**content_of(folder), "skip": [rule]}, folder)
    assert {cell.split for cell in plan.cells() if cell.skip} == {"rung far"}
    with pytest.raises(ConfigError, match="names a split 'rung near' that the plan lacks; did you mean 'rung far'"):
        prepared({**content_of(folder), "skip": [rule | {"split": "rung near"}]}, folder)
