"""Plans from files: what one adds to another."""

import pytest
import yaml

from unseen.core.errors import ConfigError
from unseen.studies import load_plan

PLAN = {
    "name": "small",
    "data": {"toy": "features=features.npz"},
    "splits": {"half": {"name": "fraction", "train": 0.5}, "other": {"name": "fraction", "train": 0.4}},
    "seeds": [0, 1],
    "base": {"epochs": 2, "embedding_size": 6},
    "methods": {"contrastive": {"loss": "contrastive"}},
}


def write(path, content):
    path.write_text(yaml.safe_dump(content))
    return str(path)


def test_a_plan_that_extends_another_holds_both_and_its_own_word_counts(tmp_path):
    first = write(tmp_path / "first.yaml", PLAN)
    added = {
        "extends": first,
        "title": "More",
        "splits": {"other": {"name": "fraction", "train": 0.6}, "third": {"name": "fraction", "train": 0.7}},
        "seeds": [2],
        "base": {"epochs": 3},
        "methods": {"triplet": {"loss": "triplet"}},
    }
    plan = load_plan(write(tmp_path / "second.yaml", added))
    assert (plan.name, plan.title, plan.seeds) == ("small", "More", (2,))
    assert {label: split["train"] for label, split in plan.splits.items()} == {"half": 0.5, "other": 0.6, "third": 0.7}
    assert plan.base == {"epochs": 3, "embedding_size": 6}
    assert list(plan.methods) == ["contrastive", "triplet"]
    third = load_plan(write(tmp_path / "third.yaml", {"extends": str(tmp_path / "second.yaml"), "seeds": [5]}))
    assert (third.seeds, third.methods) == ((5,), plan.methods)


def test_a_plan_that_extends_itself_or_one_that_does_not_exist_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "first.yaml", {"extends": "second.yaml"})
    write(tmp_path / "second.yaml", {"extends": "first.yaml"})
    with pytest.raises(ConfigError, match=r"the plan 'first\.yaml' extends itself"):
        load_plan("first.yaml")
    with pytest.raises(ConfigError, match="unknown study 'dmo'.*did you mean 'demo'"):
        load_plan(write(tmp_path / "third.yaml", {"extends": "dmo"}))


def test_the_complete_demo_repeats_no_cell_of_the_short_one():
    short, complete = load_plan("demo"), load_plan("demo-all")
    ladders = {label for label, split in complete.splits.items() if split["name"] == "ladder"}
    without_ladder = {label: split for label, split in complete.splits.items() if label not in ladders}
    known = {cell.name for cell in complete.with_splits(without_ladder, complete.described).cells()}
    cells = {cell.name for cell in short.cells()}
    assert ladders
    assert cells < known
    assert short.name == complete.name, "both write to the same folder"
    assert not short.analyses
    assert len(cells) == 23
