"""`unseen list models`: what is known of the backbones of the papers, without importing any of them."""

import json

from typer.testing import CliRunner

from unseen.cli.app import app
from unseen.models import backbone_facts


def listed(*arguments):
    result = CliRunner().invoke(app, ["list", *arguments], env={"COLUMNS": "160"})
    assert result.exit_code == 0, result.output
    return result.output


def test_models_are_listed_with_width_normalisation_and_freezing():
    words = listed("models")
    row = next(line for line in words.splitlines() if line.startswith("resnet50 "))
    assert "ResNet-50; R and O." in row
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


def test_methods_and_named_recipes_are_listed():
    methods = {entry["name"]: entry for entry in json.loads(listed("methods", "--json"))}
    assert {"plain", "uniform_prior", "mixup", "s2sd", "diva"} <= methods.keys()
    assert "momentum" in [argument["name"] for argument in methods["diva"]["arguments"]]
    recipes = {entry["name"] for entry in json.loads(listed("recipe", "--json"))}
    assert {"r_contrastive", "r_triplet", "r_margin", "r_snr"} <= recipes
