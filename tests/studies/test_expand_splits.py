"""Splits that stand for many: rungs of a ladder and pairs of joined data, and what is refused in a sentence."""

import pytest
import yaml

from tests.helpers.two_groups import write_features_and_ladder
from unseen.core.config import read_yaml
from unseen.core.errors import ConfigError, DataError
from unseen.shifts import SwapSchedule
from unseen.studies import Plan, load_plan, plan_cells, prepare_study, shipped_plans
from unseen.studies.expand_splits import expand_splits


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Features and a ladder of five rungs of them, as files."""
    folder = tmp_path_factory.mktemp("ladder")
    write_features_and_ladder(folder, SwapSchedule(swaps=2, easier=0, harder=3, removals=2), rungs=5)
    return folder


def expanded(content, data=None):
    """The plan with these splits, and whatever else is stated, after expansion."""
    plan = {"name": "small", "data": data or {"groups": "glyphs"}, "methods": {"margin": {"loss": "margin"}}}
    return expand_splits(Plan.from_mapping(plan | content))


def splits_of(place, **record):
    return expanded({"splits": {"rung": {"name": "ladder", "path": str(place / "ladder.json"), **record}}}).splits


@pytest.mark.parametrize(
    ("rungs", "numbers"),
    [
        ("all", [1, 2, 3, 4, 5]),
        ([4, 2], [4, 2]),
        (["easiest", "middle", "hardest"], [1, 3, 5]),
        ([2, "hardest"], [2, 5]),
    ],
)
def test_rungs_become_splits_of_their_own(place, rungs, numbers):
    made = splits_of(place, rungs=rungs, validation=False)
    assert list(made) == [f"rung {number}" for number in numbers]
    for number, record in zip(numbers, made.values(), strict=True):
        assert record == {
            "name": "ladder",
            "path": str(place / "ladder.json"),
            "validation": False,
            "rung": number,
        }


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"rungs": "most"}, "rungs must be 'all' or a list of rungs; got 'most'. Use all, or a list"),
        ({"rungs": []}, "rungs must be 'all' or a list of rungs"),
        ({"rungs": [6]}, "the ladder has rungs 1 to 5; got 6"),
        ({"rungs": [0]}, "the ladder has rungs 1 to 5"),
        ({"rungs": [True]}, "the ladder has rungs 1 to 5"),
        ({"rungs": ["hard"]}, "did you mean 'hardest'"),
        ({"rungs": [1, "easiest"]}, "a rung occurs twice"),
        ({"rungs": "all", "rung": 2}, "rung and rungs exclude each other"),
        ({"rungs": "all", "path": None}, "a ladder needs its file"),
    ],
)
def test_a_wrong_choice_of_rungs_is_one_sentence(place, record, words):
    with pytest.raises(ConfigError, match=words):
        splits_of(place, **record)


def test_labels_stay_apart_and_other_splits_stay_as_they_are(place):
    ladder = {"name": "ladder", "path": str(place / "ladder.json"), "rungs": [1]}
    made = expanded({"splits": {"rung": ladder, "halves": "fraction"}, "described": {"rung": "birds"}})
    assert list(made.splits) == ["rung 1", "halves"]
    assert made.described == {"rung 1": "birds (rung 1)"}
    with pytest.raises(ConfigError, match="the label 'rung 1' occurs twice"):
        expanded({"splits": {"rung": ladder, "rung 1": "fraction"}})


def test_another_ladder_can_be_put_in_its_place(place, tmp_path):
    splits = {"rung": {"name": "ladder", "path": "nowhere.json", "rungs": [2]}}
    content = {"name": "small", "data": {"groups": "glyphs"}, "splits": splits, "methods": {"margin": {}}}
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(content))
    plan = load_plan(str(tmp_path / "plan.yaml"), ladder=str(place / "ladder.json"))
    assert expand_splits(plan).splits["rung 2"]["path"] == str(place / "ladder.json")
    with pytest.raises(DataError, match=r"nowhere\.json"):
        expand_splits(load_plan(str(tmp_path / "plan.yaml")))
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump({**content, "splits": {"halves": "fraction"}}))
    with pytest.raises(ConfigError, match="no split of a ladder"):
        load_plan(str(tmp_path / "plan.yaml"), ladder="ladder.json")


JOINED = {"all": {"name": "joined", "parts": {"birds": "folder=a", "cars": "folder=b"}}}


def test_pairs_become_all_ordered_pairs():
    made = expanded({"splits": {"from": {"name": "domains", "pairs": "all", "by": "first"}}}, JOINED).splits
    assert list(made) == ["from birds to birds", "from birds to cars", "from cars to birds", "from cars to cars"]
    assert made["from cars to birds"] == {"name": "domains", "by": "first", "train_on": "cars", "test_on": "birds"}


def test_pairs_may_be_those_of_a_list_of_groups():
    made = expanded({"splits": {"from": {"name": "domains", "pairs": ["Greek", "Latin"]}}})
    assert [(split["train_on"], split["test_on"]) for split in made.splits.values()] == [
        ("Greek", "Greek"),
        ("Greek", "Latin"),
        ("Latin", "Greek"),
        ("Latin", "Latin"),
    ]


def test_the_study_of_transfer_takes_any_data_sets_from_the_command_line(place):
    one = f"features={place / 'groups.npz'}"
    plan = expand_splits(load_plan("transfer", f"joined:parts={{here: {one}, there: {one}}}"))
    assert list(plan.splits) == ["from here to here", "from here to there", "from there to here", "from there to there"]
    assert plan.data["joined"]["parts"] == {"here": one, "there": one}


def test_every_cell_of_the_studies_on_glyphs_can_be_prepared(place, tmp_path):
    plan = load_plan("transfer-glyphs", "glyphs:size=8,max_per_class=3")
    with pytest.raises(ConfigError, match=r"the split 'from' stands for several\. Call prepare_study"):
        plan_cells(plan)
    plan = prepare_study(plan, tmp_path)
    assert len(plan_cells(plan)) == 9 * len(plan.methods)
    plan = load_plan("capacity-glyphs", f"features={place / 'groups.npz'}", ladder=str(place / "ladder.json"))
    plan = prepare_study(plan, tmp_path)
    assert not list(tmp_path.iterdir()), "nothing was built"
    assert len(plan.splits) == 5


@pytest.mark.parametrize(
    ("data", "record", "words"),
    [
        ({"b": {"name": "folder", "path": "a"}}, {}, "pairs: all needs joined data"),
        (JOINED | {"b": "folder=c"}, {}, "pairs: all needs joined data"),
        (JOINED, {"pairs": "some"}, "pairs must be 'all' or a list"),
        (JOINED, {"pairs": ["cars"]}, "at least two different parts or groups"),
        (JOINED, {"pairs": ["cars", "cars"]}, "at least two different parts or groups"),
        (JOINED, {"train_on": "cars"}, "train_on and pairs exclude each other"),
    ],
)
def test_a_wrong_choice_of_pairs_is_one_sentence(data, record, words):
    with pytest.raises(ConfigError, match=words):
        expanded({"splits": {"from": {"name": "domains", "pairs": "all"} | record}}, data)


@pytest.mark.parametrize(("name", "rungs", "methods"), [("ladder-frozen", 5, 6), ("ladder-top", 3, 3)])
def test_every_cell_of_a_shipped_study_over_a_ladder_can_be_prepared(place, tmp_path, name, rungs, methods):
    """On features and without what only images have; the settings of losses are those that ship."""
    content = read_yaml(shipped_plans()[name])
    for key in ("model", "transform", "views", "depth"):
        content["base"].pop(key, None)
    for settings in content["methods"].values():
        settings.pop("views", None)
    content["base"] |= {"embedding_size": 6, "model": "identity"}
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(content))
    plan = load_plan(str(tmp_path / "plan.yaml"), f"features={place / 'groups.npz'}", ladder=str(place / "ladder.json"))
    plan = prepare_study(plan, tmp_path)
    assert len(plan.splits) == rungs
    trained = [label for label, settings in plan.methods.items() if settings["loss"] is not None]
    assert len(trained) == methods
    cells = plan_cells(plan)
    assert len(cells) == rungs * (len(trained) * len(plan.seeds) + 1)
    assert {cell.config["split"]["rung"] for cell in cells} == {int(label.split()[1]) for label in plan.splits}
