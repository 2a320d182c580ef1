"""`unseen list`: readable at any width; facts of the papers' backbones without importing any of them."""

import json
from importlib.util import find_spec

import pytest
from typer.testing import CliRunner

from unseen.cli.app import app
from unseen.models import backbone_facts, packaged_weights


def listed(*arguments, columns=160):
    result = CliRunner().invoke(app, ["list", *arguments], env={"COLUMNS": str(columns)})
    assert result.exit_code == 0, result.output
    return result.output


def test_models_are_listed_with_width_normalisation_and_freezing():
    words = listed("models")
    row = next(line for line in words.splitlines() if line.startswith("resnet50 "))
    assert "ResNet-50; Roth et al. 2020 and Milbich et al. 2021." in row
    assert "width 2048, mean 0.485 0.456 0.406" in " ".join(words.split())
    assert "batch norm frozen statistics" in " ".join(words.split())


def test_the_list_of_models_is_the_table_of_models():
    facts = {entry["name"]: entry["facts"] for entry in json.loads(listed("model", "--json"))}
    known = backbone_facts()
    assert facts.keys() == known.keys()
    for name, entry in known.items():
        assert facts[name] == {
            "width": entry.width,
            "mean": list(entry.mean),
            "std": list(entry.std),
            "batch norm": entry.batch_norm,
        }


def test_backbones_by_name_are_listed_with_origin_licence_and_whether_they_are_installed():
    entries = {entry["name"]: entry for entry in json.loads(listed("backbones", "--json"))}
    assert {"joined", "timm", *packaged_weights()} <= entries.keys()
    for name, known in packaged_weights().items():
        facts = entries[name]["facts"]
        assert facts["width"] == backbone_facts()[known.architecture].width
        assert facts["licence"] == known.licence
        assert facts["package"] == f"{known.package} {known.version}"
        assert facts["pretrained on"] == known.pretraining
        assert facts["installed"] == ("yes" if find_spec(known.package) else f"no ({known.install})")
    assert "facts: width 384" in " ".join(listed("backbones", columns=80).split())


def test_methods_and_named_recipes_are_listed():
    methods = {entry["name"]: entry for entry in json.loads(listed("methods", "--json"))}
    assert {"plain", "classifier", "uniform_prior", "mixup", "s2sd", "diva"} <= methods.keys()
    assert "momentum" in [argument["name"] for argument in methods["diva"]["arguments"]]
    recipes = {entry["name"] for entry in json.loads(listed("recipe", "--json"))}
    assert {"r_contrastive", "r_triplet", "r_margin", "r_snr"} <= recipes


@pytest.mark.parametrize("columns", [80, 160])
def test_names_summaries_and_settings_are_complete_at_any_width(columns):
    entries = json.loads(listed("losses", "--json"))
    lines = listed("losses", columns=columns).splitlines()
    assert max(map(len, lines)) <= columns
    # A summary may wrap, and beside the settings its lines alternate with theirs: look for words, and for whole names.
    first_words = [line.split()[0] for line in lines if line and not line.startswith(" ")]
    assert [word for word in first_words if word not in ("losses", "name")] == [entry["name"] for entry in entries]
    words = " ".join(lines).split()
    for entry in entries:
        assert set(entry["summary"].split()) <= set(words), entry["name"]
        for argument in entry["arguments"]:
            shown = argument["name"] if argument["default"] == "required" else f"{argument['name']}="
            assert any(word.startswith(shown) for word in words), shown
