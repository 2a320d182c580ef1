"""What every file of settings must keep: it loads, comes back the same, and refuses a key with one letter changed."""

from pathlib import Path

import pytest

from unseen.core.config import Record, build, complete, read_yaml, record_of
from unseen.core.errors import ConfigError
from unseen.core.registry import REGISTRIES
from unseen.runs import prepare
from unseen.studies import Plan, load_plan, shipped_plans

FILES = sorted((Path(__file__).parents[2] / "configs").glob("*.yaml"))
ELSEWHERE = {
    "data": "a function of files, whose settings stand in the catalogue; tests/data/sources",
    "backbone": "built for the shape of its inputs; tests/contracts/test_backbone_contract.py",
    "score": "computed from ranks and clusters, by evaluate; tests/contracts/test_score_contract.py",
    "analysis": "a function of a study; tests/analyses",
}
"""Registries whose components do not keep the settings they were built with, and what tests them."""
RECORDS = [(kind, name) for kind in REGISTRIES if kind not in ELSEWHERE for name in REGISTRIES[kind].names()]
NEEDED: dict[str, Record] = {
    "groups": {"test": ["Greek"]},
    "classes": {"test": ["a", "b"]},
    "ladder": {"path": "ladder.json", "rung": 1},
    "domains": {"train_on": "birds", "test_on": "cars"},
    "cross_batch_memory": {"loss": "contrastive"},
    "robust": {"pair_loss": "margin_pair", "uncertainty": "kl"},
}
KNOWN = {"num_classes": 5, "embedding_size": 4}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_loads_and_comes_back_the_same(path):
    first = prepare(read_yaml(path)).recipe
    assert prepare(first.to_mapping()).recipe == first


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_key_with_one_letter_changed_is_refused(path):
    content = read_yaml(path)
    for key in content:
        changed = {
            (key[:-1] + ("x" if key[-1] != "x" else "y") if name == key else name): value
            for name, value in content.items()
        }
        with pytest.raises(ConfigError, match="did you mean"):
            prepare(changed)


@pytest.mark.parametrize("name", sorted(shipped_plans()))
def test_a_plan_comes_back_the_same(name):
    plan = load_plan(name)
    assert Plan.from_mapping(plan.to_mapping()).to_mapping() == plan.to_mapping()


@pytest.mark.parametrize(("kind", "name"), RECORDS)
def test_a_component_returns_the_record_it_was_built_from(kind, name):
    registry = REGISTRIES[kind]
    if kind == "transform":
        pytest.importorskip("torchvision")
    record = complete(registry, {"name": name, **NEEDED.get(name, {})}, KNOWN)
    again = record_of(registry, build(registry, record, KNOWN))
    assert {key: again[key] for key in record} == record


def test_there_is_a_file_to_test():
    assert FILES
