"""Plans become cells with stable names, and refuse what they do not understand."""

import pytest

from unseen.core.config import hash_of
from unseen.core.errors import ConfigError
from unseen.studies.plan import Plan


def make_plan(**changes):
    content = {
        "name": "demo",
        "title": "A small study",
        "data": {"glyphs": {"name": "glyphs", "size": 32}},
        "splits": {"characters": {"name": "fraction"}, "scripts": {"name": "groups"}},
        "methods": {
            "raw pixels": {"model": None, "seeds": [0]},
            "margin": {"loss": {"name": "margin"}},
            "triplet": {"loss": {"name": "triplet"}, "epochs": 7},
        },
        "seeds": [0, 1],
        "base": {"epochs": 3, "loss": {"name": "contrastive", "margin": 0.5}},
    }
    return Plan.from_mapping(content | changes)


def share(**record):
    """Splits of which one is run by some methods or with some seeds."""
    return {"splits": {"characters": {"name": "fraction"}, "scripts": {"name": "groups", **record}}}


def test_a_split_may_be_run_by_some_methods_and_with_some_seeds():
    whole = make_plan().cells()
    some = make_plan(**share(methods=["triplet", "raw pixels"], seeds=[0])).cells()
    expected = [cell for cell in whole if cell.split == "characters" or (cell.method != "margin" and cell.seed == 0)]
    assert some == expected
    assert len(some) == 7


def test_a_plan_is_the_grid_of_its_labels_with_the_seeds_of_each_method():
    places = [(cell.data, cell.split, cell.method, cell.seed) for cell in make_plan().cells()]
    expected = {
        ("glyphs", split, method, seed)
        for split in ("characters", "scripts")
        for method in ("raw pixels", "margin", "triplet")
        for seed in (0, 1)
        if method != "raw pixels" or seed == 0
    }
    assert len(places) == len(expected) == 10
    assert set(places) == expected
    assert [place[3] for place in places] == sorted(place[3] for place in places), "the first seed comes first"


def test_a_method_stands_over_the_base_as_a_whole():
    cells = {(cell.method, cell.split, cell.seed): cell for cell in make_plan().cells()}
    assert cells["triplet", "scripts", 1].config == {
        "data": {"name": "glyphs", "size": 32},
        "split": {"name": "groups"},
        "loss": {"name": "triplet"},
        "epochs": 7,
        "seed": 1,
    }
    assert cells["margin", "scripts", 1].config["epochs"] == 3
    assert "seeds" not in cells["raw pixels", "scripts", 0].config


def test_names_are_hashes_of_configurations_and_do_not_depend_on_labels_or_order():
    names = {cell.name for cell in make_plan().cells()}
    turned = make_plan(
        name="other",
        methods={
            "b": {"epochs": 7, "loss": {"name": "triplet"}},
            "a": {"loss": {"name": "margin"}},
            "c": {"seeds": [0], "model": None},
        },
    )
    assert {cell.name for cell in turned.cells()} == names
    assert all(cell.name == hash_of(cell.config) for cell in turned.cells())
    assert not {cell.name for cell in make_plan(base={"epochs": 4}).cells() if cell.method == "margin"} & names


def test_names_of_cells_stay_the_same_over_versions():
    # A change here orphans every result that people have: it belongs under "Numbers that change".
    assert make_plan().cells()[0].name == "d768b9d05760216b"


def test_completion_is_part_of_the_name():
    plan = make_plan()
    completed = plan.cells(lambda config: {"batch": 112, **config})
    assert all(cell.config["batch"] == 112 for cell in completed)
    assert not {cell.name for cell in completed} & {cell.name for cell in plan.cells()}
    stated = make_plan(base={"epochs": 3, "loss": {"name": "contrastive", "margin": 0.5}, "batch": 112})
    assert [cell.name for cell in stated.cells()] == [cell.name for cell in completed]


def test_a_plan_survives_the_way_to_a_mapping_and_back():
    plan = make_plan(skip=[{"method": "margin", "seed": 1, "why": "it is known"}])
    again = Plan.from_mapping(plan.to_mapping())
    assert again == plan
    assert again.hash == plan.hash != make_plan().hash
    assert again.cells() == plan.cells()


def test_a_baseline_is_part_of_the_plan_and_of_no_cell():
    plan = make_plan(baseline="margin")
    assert Plan.from_mapping(plan.to_mapping()).baseline == "margin"
    assert plan.cells() == make_plan().cells()
    older = {key: value for key, value in make_plan().to_mapping().items() if key != "baseline"}
    assert Plan.from_mapping(older) == make_plan()


def test_records_may_be_written_as_on_the_command_line():
    assert make_plan(data={"glyphs": "glyphs:size=32"}).cells() == make_plan().cells()


def test_a_skip_rule_leaves_out_the_cells_that_match_all_its_labels():
    skip = [{"method": "margin", "split": "scripts", "why": "margin knows no scripts"}]
    cells = make_plan(skip=skip).cells()
    assert len(cells) == 10
    left_out = [(cell.method, cell.split, cell.skip) for cell in cells if cell.skip]
    assert left_out == [("margin", "scripts", "margin knows no scripts")] * 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sedes": [0]}, "plan 'demo': unknown setting 'sedes'; did you mean 'seeds'?"),
        ({"seeds": []}, "seeds must be a list of different integers >= 0"),
        ({"seeds": [0, 0]}, "different integers"),
        ({"seeds": [True]}, "different integers"),
        ({"seeds": 3}, "different integers"),
        ({"seeds": [-1]}, "different integers"),
        ({"data": {}}, "data must be a mapping that is not empty"),
        ({"data": {"glyphs": {"size": 3}}}, "a data must be a name or a mapping with a 'name'"),
        ({"methods": {"margin": "margin"}}, "methods: margin must be a mapping; got 'margin'"),
        ({"methods": {3: {}}}, "methods: a label must be a string that is not empty; got 3"),
        ({"methods": {"a": {"seed": 3}}}, "methods: a may not hold 'seed', the grid sets it"),
        ({"methods": {"a": {"seeds": [0.5]}}}, "methods: a: seeds must be"),
        ({"base": {"data": {"name": "glyphs"}}}, "base may not hold 'data'"),
        ({"baseline": "margn"}, "baseline names a method 'margn' that the plan lacks; did you mean 'margin'?"),
        ({"baseline": ["margin"]}, "baseline must be a string; got ['margin']"),
        ({"name": ""}, "name must be a string that is not empty; got ''"),
        (share(methods="margin"), "splits: scripts: methods must be a list of different labels; got 'margin'"),
        (share(methods=["margin", "margin"]), "methods must be a list of different labels"),
        (
            share(methods=["margn"]),
            "splits: scripts names a method 'margn' that the plan lacks; did you mean 'margin'?",
        ),
        (share(methods=[]), "splits: scripts: its methods run with seeds []"),
        (share(seeds=[0, 0]), "splits: scripts: seeds must be"),
        (share(seeds=[2]), "splits: scripts: its methods run with seeds [0, 1]; got [2]"),
        (share(methods=["raw pixels"], seeds=[1]), "its methods run with seeds [0]; got [1]"),
        ({"skip": [{"method": "margin"}]}, "skip: 0: the setting 'why' is missing"),
        ({"skip": [{"why": "no"}]}, "a skip rule needs a label; got {'why': 'no'}"),
        ({"skip": [{"metod": "margin", "why": "no"}]}, "skip: 0: unknown setting 'metod'; did you mean 'method'?"),
        (
            {"skip": [{"method": "margn", "why": "no"}]},
            "names a method 'margn' that the plan lacks; did you mean 'margin'?",
        ),
        (
            {"skip": [{"split": "script", "why": "no"}]},
            "names a split 'script' that the plan lacks; did you mean 'scripts'?",
        ),
        ({"skip": [{"seed": 2, "why": "no"}]}, "names a seed '2' that the plan lacks"),
        ({"skip": [{"method": "margin", "why": ""}]}, "skip: 0: why must be a string that is not empty; got ''"),
        ({"described": {"script": "letters"}}, "described names a split 'script' that the plan lacks"),
        ({"analyses": {"ladder": None}}, "analyses: ladder must be a mapping; got None"),
    ],
)
def test_a_plan_that_is_wrong_is_refused_with_a_sentence(changes, message):
    with pytest.raises(ConfigError) as refused:
        make_plan(**changes)
    assert message in str(refused.value)


def test_a_plan_without_methods_is_refused():
    with pytest.raises(ConfigError, match="plan 'demo': the setting 'data' is missing"):
        Plan.from_mapping({"name": "demo"})


def test_two_labels_for_one_configuration_are_refused():
    plan = make_plan(methods={"a": {"epochs": 3}, "b": {"epochs": 3}})
    with pytest.raises(ConfigError, match=r"glyphs / characters / a / seed 0 and .* / b / seed 0 are the same"):
        plan.cells()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, object(), "\ud800"])
def test_what_is_not_json_cannot_be_a_setting(value):
    with pytest.raises(ConfigError, match="must be JSON"):
        make_plan(base={"weird": value}).cells()
