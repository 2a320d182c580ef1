from typing import Any

import pytest

from tests.helpers.present import present
from tests.helpers.small_runs import settings_for, write_features
from unseen.core.errors import ConfigError
from unseen.runs import prepare
from unseen.runs.named_recipes import load_recipe, named_recipes

# Published run scripts of Roth et al. (arXiv:2002.08473, rho-regularization) and of S2SD (arXiv:2009.08348).
P_SWITCH = {
    ("r_contrastive", "cub200"): 0.4,
    ("r_triplet", "cub200"): 0.4,
    ("r_margin", "cub200"): 0.35,
    ("r_snr", "cub200"): 0.3,
    **{(f"r_{loss}", "cars196"): 0.35 for loss in ("contrastive", "triplet", "margin", "snr")},
    **{(f"r_{loss}", "sop"): 0.15 for loss in ("contrastive", "triplet", "margin", "snr")},
    ("s2sd", "cub200"): 0.4,
    ("s2sd", "cars196"): 0.3,
}


@pytest.fixture
def features(tmp_path):
    return write_features(tmp_path / "features.npz")


def settings_of(features, name, **others):
    settings = settings_for(features, embedding_size=8) | {"recipe": name} | others
    return {key: value for key, value in settings.items() if key != "loss" or "loss" in others}


@pytest.mark.parametrize(("name", "data"), P_SWITCH)
def test_the_share_of_switched_triplets_is_the_published_one(name, data):
    miner = load_recipe(name).settings_for(data)["loss"]["miner"]
    assert miner == {"name": "rho_distance", "p_switch": P_SWITCH[name, data]}


@pytest.mark.parametrize("name", named_recipes())
def test_a_recipe_is_a_run_on_any_data_and_comes_back_the_same(features, name):
    recipe = prepare(settings_of(features, name)).recipe
    settings = load_recipe(name).settings_for("features")
    assert present(recipe.loss)["name"] == settings["loss"]["name"]
    assert recipe.method["name"] == settings.get("method", {"name": "plain"})["name"]
    assert prepare(recipe.to_mapping()).recipe == recipe


def test_what_a_data_set_changes_stands_over_the_rest():
    sop = load_recipe("uniform_prior").settings_for("sop")
    assert sop["method"] == {"name": "uniform_prior", "weight": 0.02, "interval": 200, "hidden": 50}
    assert load_recipe("s2sd").settings_for("cub200")["loss"]["miner"]["name"] == "rho_distance"
    assert load_recipe("s2sd").settings_for("sop")["loss"] == {
        "name": "margin",
        "beta": 0.9,
        "miner": {"name": "distance"},
    }
    assert load_recipe("diva").settings_for("cars196")["method"]["head_weights"] == [0.5, 1.5]


def test_what_is_stated_changes_the_settings_of_a_recipe_and_not_its_components(features):
    recipe = prepare(settings_of(features, "r_margin", loss="margin:beta=0.7")).recipe
    assert present(recipe.loss)["beta"] == 0.7
    assert present(recipe.loss)["miner"]["name"] == "rho_distance"
    stated = prepare(settings_of(features, "diva", method="diva:momentum=0.5")).recipe
    assert (stated.method["momentum"], stated.method["shared_mining"]) == (0.5, "random")
    with pytest.raises(ConfigError, match="recipe 'r_margin' has the loss 'margin'; got 'triplet'"):
        prepare(settings_of(features, "r_margin", loss="triplet"))
    with pytest.raises(ConfigError, match="recipe 'diva' has the method 'diva'; got 'plain'"):
        prepare(settings_of(features, "diva", method="plain"))


def test_a_recipe_stands_over_the_protocol(features):
    settings: dict[str, Any] = {
        "data": {"name": "features", "path": str(features)},
        "protocol": "R",
        "recipe": "r_margin",
    }
    settings |= {"model": "identity", "transform": None, "sampler": "samples_per_class:batch_size=10,per_class=2"}
    recipe = prepare(settings).recipe
    assert present(recipe.loss)["miner"]["name"] == "rho_distance"
    assert present(recipe.loss)["beta_lr"] == 5e-4
    assert recipe.epochs == 150


def test_an_unknown_recipe_is_refused_with_the_nearest():
    with pytest.raises(ConfigError, match="unknown recipe 'rmargin'; did you mean 'r_margin'"):
        load_recipe("rmargin")


def test_a_method_without_a_loss_is_refused(features):
    with pytest.raises(ConfigError, match="a method needs a loss; got 'diva'"):
        prepare(settings_for(features, loss=None, method="diva"))
