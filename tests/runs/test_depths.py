"""Depths of training: the trained part is part of the whole model, and what lies below it is computed once."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.helpers.small_runs import (
    Stop,
    image_settings,
    settings_for,
    stop_at,
    without_times,
    write_features,
    write_images,
)
from unseen.core.errors import ConfigError, DataError
from unseen.data import CatalogueDataset, ItemKey
from unseen.data.row_cache import CachedRows
from unseen.evaluation import evaluate
from unseen.models import build_embedder, embed
from unseen.models import cached_outputs as caching
from unseen.runs import evaluation_arguments, load_run, prepare, run, run_recipe
from unseen.runs.depths import items_at_depth, part_at_depth
from unseen.runs.run_recipe import make_dataset, model_of

TOP = {"depth": "top", "cut": "blocks.2"}


@pytest.fixture
def images(tmp_path):
    return write_images(tmp_path / "images")


@pytest.fixture(autouse=True)
def forwarded(monkeypatch):
    """The number of blocks that went through a network on the way into a cache."""
    blocks = []
    real = caching._outputs

    def counting(network, items, asked, *others):
        blocks.extend(asked)
        return real(network, items, asked, *others)

    monkeypatch.setattr(caching, "_outputs", counting)
    return blocks


def settings_at(images, **others):
    return image_settings(images, batch_norm="frozen", **others)


@pytest.mark.parametrize("depth", [TOP, {"depth": "frozen"}, TOP | {"views": 3}])
def test_only_what_lies_above_the_cut_moves_and_the_whole_model_is_written(images, tmp_path, depth):
    settings = settings_at(images, **depth)
    result = run(settings, tmp_path / "run", cache=tmp_path / "cache")
    prepared, items, model = load_run(tmp_path / "run")
    before = model_of(prepared.recipe, items).state_dict()
    after = load_file(tmp_path / "run" / "model.safetensors")
    assert after.keys() == before.keys()
    moved = {name for name, tensor in after.items() if not torch.equal(tensor, before[name])}
    assert moved
    above = ("head.",) if depth["depth"] == "frozen" else ("head.", "backbone.blocks.8.", "backbone.blocks.9.")
    assert all(name.startswith(above) for name in moved)
    # The written model, on images: the same scores but for the rounding of cached activations.
    found = evaluate(
        embed(model, items, prepared.split.test), **evaluation_arguments(prepared.catalogue, prepared.split)
    )
    assert found["map@r"] == pytest.approx(result["scores"]["numbers"]["map@r"], abs=0.02)
    assert result["protocol"]["depth"] == depth["depth"]


def test_the_model_of_a_run_gives_on_images_what_its_part_gives_on_the_cache(images, tmp_path):
    for depth, tolerance in ((TOP, 1e-2), ({"depth": "frozen"}, 1e-6)):
        prepared = prepare(settings_at(images, **depth))
        recipe, split = prepared.recipe, prepared.split
        items = make_dataset(recipe, prepared.catalogue)
        model = model_of(recipe, items)
        parts = part_at_depth(recipe, model, items)
        seen = items_at_depth(prepared, parts, items, cache=tmp_path / "cache", workers=0)
        whole, part = embed(model, items, split.test), embed(parts.trained, seen, split.test)
        # Half precision keeps three digits of an activation.
        torch.testing.assert_close(part, whole, rtol=tolerance, atol=tolerance * whole.abs().max().item())


def test_runs_of_any_seed_loss_and_split_share_a_cache_that_is_made_once(images, tmp_path, forwarded):
    run(settings_at(images, depth="frozen"), tmp_path / "0", cache=tmp_path / "cache")
    made = len(forwarded)
    assert made == 1
    weights = load_file(tmp_path / "0" / "model.safetensors")
    assert weights
    run(settings_at(images, depth="frozen", loss="triplet", epochs=1), tmp_path / "1", cache=tmp_path / "cache")
    other = settings_at(images, depth="frozen") | {"split": "fraction:train=0.6,validation=0.3,seed=1"}
    run(other, tmp_path / "2", cache=tmp_path / "cache")
    few = {"split": "classes:train=[class 0,class 1,class 2],test=[class 3,class 4],validation=0"}
    run(settings_at(images, depth="frozen") | few, tmp_path / "3", cache=tmp_path / "cache")
    assert len(forwarded) == made


SMALLER = {"model": "test_resnet", "transform": "crop:size=64,train_size=32"}


@pytest.mark.parametrize("depth", [{"depth": "full"}, {"depth": "frozen", "views": 3}, {"depth": "top", "views": 3}])
def test_training_crops_may_be_smaller_at_every_depth(images, tmp_path, depth, monkeypatch):
    cut = {"cut": "layer3"} if depth["depth"] == "top" else {}
    shapes: dict[bool, set[tuple[int, ...]]] = {True: set(), False: set()}
    real = CatalogueDataset.__getitems__

    def watching(items, keys):
        batch = real(items, keys)
        if not isinstance(items.catalogue.reader, CachedRows) and depth["depth"] != "full":
            return batch  # on the way into the cache
        shapes[keys[0].key is not None].add(tuple(batch.inputs.shape[1:]))
        return batch

    monkeypatch.setattr(CatalogueDataset, "__getitems__", watching)
    run(settings_at(images, **depth, **cut) | SMALLER, tmp_path / "run", cache=tmp_path / "cache")
    training, evaluation = shapes[True], shapes[False]
    assert len(training) == len(evaluation) == 1
    sides = {"full": (32, 64), "top": (4, 8)}.get(depth["depth"])
    if sides is not None:
        assert (training.pop()[-1], evaluation.pop()[-1]) == sides


def test_smaller_training_crops_are_refused_where_there_are_none(images):
    with pytest.raises(ConfigError, match="a single cached view is not augmented"):
        prepare(settings_at(images, depth="frozen") | SMALLER)
    prepare(settings_at(images, depth="frozen", loss=None) | SMALLER)


@pytest.mark.parametrize("model", ["convnet:base=4", "test_vit"])
def test_training_crops_that_a_model_does_not_take_are_refused(images, tmp_path, model):
    with pytest.raises(ConfigError, match="takes no crops of this train_size; got 24"):
        run(settings_at(images) | {"model": model, "transform": "crop:size=32,train_size=24"}, tmp_path / "run")
    assert not (tmp_path / "run").exists()


CHANGES = {
    "weights": {"seed": 1},
    "architecture": {"model": "convnet:base=6"},
    "transform": {"transform": "crop:size=16,resize=18"},
    "training size": {"transform": "crop:size=16,train_size=16"},
    "normalisation": {"transform": "crop:size=16,mean=[0,0,0]"},
    "cut": {"cut": "blocks.1"},
    "depth and type": {"depth": "frozen", "cut": None},
    "views": {"views": 5},
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_what_makes_a_cache_makes_another_one(images, tmp_path, forwarded, change):
    settings = settings_at(images, loss=None, epochs=0, **TOP)
    run(settings, tmp_path / "a", cache=tmp_path / "cache")
    made = len(forwarded)
    run(settings, tmp_path / "b", cache=tmp_path / "cache")
    assert len(forwarded) == made
    run(settings | CHANGES[change], tmp_path / "c", cache=tmp_path / "cache")
    assert len(forwarded) > made


def test_a_changed_image_an_added_one_and_another_version_make_another_cache(images, tmp_path, forwarded, monkeypatch):
    settings = settings_at(images, loss=None, epochs=0, **TOP)
    counts = []
    for number in range(5):
        if number == 1:
            (images / "class 0" / "0.png").write_bytes((images / "class 1" / "0.png").read_bytes())
        if number == 2:
            (images / "class 0" / "new.png").write_bytes((images / "class 0" / "1.png").read_bytes())
        if number == 3:
            monkeypatch.setattr("unseen.__version__", "9.9.9")
        if number == 4:
            monkeypatch.setattr(caching, "_CODE", 99)
        run(settings, tmp_path / str(number), cache=tmp_path / "cache")
        counts.append(len(forwarded))
    assert counts == sorted(set(counts))


def test_augmented_views_differ_and_are_the_same_for_any_number_of_loader_workers(images, tmp_path):
    prepared = prepare(settings_at(images, **TOP, views=3))
    recipe, split = prepared.recipe, prepared.split
    items = make_dataset(recipe, prepared.catalogue)
    model = model_of(recipe, items)
    parts = part_at_depth(recipe, model, items)
    seen = [
        items_at_depth(prepared, parts, items, cache=tmp_path / f"cache {workers}", workers=workers)
        for workers in (0, 2)
    ]
    readers = [each.catalogue.reader for each in seen]
    rows = [[reader.plain, *reader.views] for reader in readers if isinstance(reader, CachedRows)]
    assert len(rows) == 2
    for one, other in zip(*rows, strict=True):
        assert np.array_equal(one, other)
    index = int(split.train[0])
    shown = [seen[0][ItemKey(index, key)].inputs for key in (None, 0, 1, 2, 3)]
    assert torch.equal(shown[0], shown[1])
    assert torch.equal(shown[1], shown[4])
    assert not torch.equal(shown[1], shown[2])
    assert not torch.equal(shown[2], shown[3])


def test_a_stopped_run_at_depth_top_continues_to_the_same_bits(images, tmp_path):
    settings = settings_at(images, **TOP, views=2, head="whitening")
    whole = run(settings, tmp_path / "whole", cache=tmp_path / "cache")

    with pytest.raises(Stop):
        run(settings, tmp_path / "parts", cache=tmp_path / "other", save_seconds=0, progress=stop_at(3))
    parts = run(settings, tmp_path / "parts", cache=tmp_path / "other", workers=2)
    assert without_times(parts) == without_times(whole)
    assert (tmp_path / "parts" / "model.safetensors").read_bytes() == (
        tmp_path / "whole" / "model.safetensors"
    ).read_bytes()


def test_a_broken_image_is_named_while_the_cache_is_made(images, tmp_path):
    (images / "class 3" / "2.png").write_bytes(b"\x89PNG")
    with pytest.raises(DataError, match="2.png"):
        run(settings_at(images, **TOP), tmp_path / "run", cache=tmp_path / "cache")


def test_features_are_frozen_already(tmp_path):
    settings = settings_for(write_features(tmp_path / "f.npz"))
    full = run(settings, tmp_path / "full", cache=tmp_path / "cache")
    frozen = run(settings | {"depth": "frozen"}, tmp_path / "frozen", cache=tmp_path / "cache")
    assert full["scores"] == frozen["scores"]
    assert not (tmp_path / "cache").exists()
    with pytest.raises(ConfigError, match="no default stage to cut"):
        run(settings | {"depth": "top"}, tmp_path / "top")


def test_what_cannot_be_trained_is_refused_before_anything_is_cached(images, tmp_path):
    with pytest.raises(ConfigError, match="nothing to train"):
        run(settings_at(images, depth="frozen") | {"embedding_size": None}, tmp_path / "run", cache=tmp_path / "cache")
    assert not (tmp_path / "cache").exists()
    assert not (tmp_path / "run").exists()


def test_no_path_of_a_weights_file_stands_in_a_cache(images, tmp_path):
    body = build_embedder("resnet10t", input_shape=(3, 16, 16), embedding_size=None).backbone.body
    assert isinstance(body, torch.nn.Module)
    save_file(body.state_dict(), tmp_path / "secret place.safetensors")
    settings = image_settings(images, depth="frozen", loss=None, epochs=0)
    settings["model"] = f"resnet10t:weights={tmp_path / 'secret place.safetensors'}"
    run(settings, tmp_path / "run", cache=tmp_path / "cache")
    key = next((tmp_path / "cache").glob("*/key.json")).read_text()
    assert json.loads(key)["model"]["architecture"] == "resnet10t"
    assert "secret" not in key


def test_a_run_that_continues_does_not_compute_the_start_of_its_head_again(images, tmp_path, monkeypatch):
    settings = settings_at(images, head="whitening", epochs=2)
    started: list[None] = []
    real = run_recipe.initialize_head
    monkeypatch.setattr(run_recipe, "initialize_head", lambda *given: started.append(real(*given)))

    whole = run(settings, tmp_path / "whole")
    with pytest.raises(Stop):
        run(settings, tmp_path / "parts", save_seconds=0, progress=stop_at(3))
    parts = run(settings, tmp_path / "parts")
    assert len(started) == 2
    assert without_times(parts) == without_times(whole)
