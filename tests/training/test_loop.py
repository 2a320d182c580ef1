import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from tests.helpers.small_runs import (
    Stop,
    image_settings,
    settings_for,
    stop_at,
    without_times,
    write_features,
    write_images,
)
from unseen.core.errors import BatchError, CheckpointError, ConfigError, NonFiniteError
from unseen.core.registry import REGISTRIES
from unseen.methods import Objective
from unseen.models import build_embedder
from unseen.runs import prepare, run
from unseen.training.optimizers import Adam, parameter_groups
from unseen.training.resume import flatten_optimizer, restore_optimizer
from unseen.training.stream import ItemKeys

RECIPES: dict[str, dict[str, Any]] = {
    "triplet with distance mining": {"loss": "triplet", "miner": "distance"},
    "margin with learnt boundaries": {"loss": "margin:beta_mode=per_class", "miner": "distance"},
    "proxy anchor": {"loss": "proxy_anchor", "optimizer": "adamw", "schedule": "cosine:warmup=3"},
    "contrastive, sgd, clipped": {"loss": "contrastive", "optimizer": "sgd", "clip_gradients": 0.5, "schedule": "step"},
    "last epoch": {"loss": "normalized_softmax", "choose_by": "last"},
    "cross-batch memory": {"loss": "cross_batch_memory:loss=(triplet:miner=distance),size=32,start_step=3"},
    "average and blend": {"loss": "multi_similarity", "average": 0.9, "blend": "auto"},
    "bfloat16": {"loss": "multi_similarity", "autocast": True},
}


@pytest.fixture
def features(tmp_path):
    return write_features(tmp_path / "features.npz")


def final(folder):
    return (folder / "model.safetensors").read_bytes()


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_run_that_is_stopped_twice_and_continued_ends_as_one_that_was_not(features, tmp_path, recipe):
    settings = settings_for(features, **RECIPES[recipe])
    whole = run(settings, tmp_path / "whole")
    for step in (7, 13):
        with pytest.raises(Stop):
            run(settings, tmp_path / "parts", save_seconds=0, progress=stop_at(step))
    assert json.loads(next((tmp_path / "parts" / "checkpoints").glob("checkpoint-1*/manifest.json")).read_text())
    parts = run(settings, tmp_path / "parts")
    assert final(tmp_path / "parts") == final(tmp_path / "whole")
    assert without_times(parts) == without_times(whole)


def test_the_number_of_loader_workers_changes_nothing_with_augmentation_on(tmp_path):
    settings = image_settings(write_images(tmp_path / "images"))
    for workers in (0, 1, 2):
        run(settings, tmp_path / str(workers), workers=workers)
    assert final(tmp_path / "0") == final(tmp_path / "1") == final(tmp_path / "2")


def test_seeds_change_the_run_and_global_generators_do_not(features, tmp_path):
    torch.manual_seed(1)
    run(settings_for(features, choose_by="last"), tmp_path / "a")
    torch.manual_seed(2)
    np.random.seed(2)
    before = torch.random.get_rng_state()
    run(settings_for(features, choose_by="last"), tmp_path / "b")
    assert torch.equal(before, torch.random.get_rng_state())
    run(settings_for(features, choose_by="last", seed=1), tmp_path / "c")
    assert final(tmp_path / "a") == final(tmp_path / "b") != final(tmp_path / "c")


def test_the_weights_are_those_of_the_best_epoch_not_of_the_last(features, tmp_path, monkeypatch):
    pretended = iter([0.05, 0.1, 0.9, 0.2, 0.3, 0.1])
    weights = []

    def validate(model):
        weights.append({name: each.clone() for name, each in model.state_dict().items()})
        return {"recall@1": next(pretended)}

    monkeypatch.setattr("unseen.runs.run_recipe._validator", lambda *arguments: validate)
    result = run(settings_for(features), tmp_path / "run")
    assert result["chosen_epoch"] == 2
    chosen = load_file(tmp_path / "run" / "model.safetensors")
    for name, tensor in chosen.items():
        assert torch.equal(tensor, weights[2][name])
        assert not torch.equal(tensor, weights[5][name])


def test_a_run_that_only_gets_worse_keeps_its_start(features, tmp_path):
    # At this rate the first step throws away what the features held.
    result = run(settings_for(features, optimizer="sgd:lr=1000", head="identity", embedding_size=10), tmp_path / "run")
    scores = [row["validation"]["recall@1"] for row in result["history"]]
    assert result["chosen_epoch"] == 0
    assert max(scores[1:]) <= scores[0]
    assert result["history"][0] == {**result["history"][0], "epoch": 0, "step": 0, "loss": None}
    untrained = run(settings_for(features, loss=None, embedding_size=None, epochs=0), tmp_path / "untrained")
    found = [each["scores"]["numbers"]["recall@1"] for each in (result, untrained)]
    assert found[0] == pytest.approx(found[1], abs=1e-9)


def test_any_score_may_choose_the_epoch(features, tmp_path):
    result = run(settings_for(features, choose_by="precision@3"), tmp_path / "run")
    scores = [row["validation"]["precision@3"] for row in result["history"]]
    assert result["chosen_epoch"] == int(np.argmax(scores))


def test_patience_ends_a_run_that_no_longer_improves(features, tmp_path):
    result = run(settings_for(features, epochs=60, patience=3, optimizer="adam:lr=1e-6"), tmp_path / "run")
    scores = [row["validation"]["recall@1"] for row in result["history"]]
    best = int(np.argmax(scores))
    assert result["chosen_epoch"] == best
    assert len(scores) == 1 + best + 3 < 60


def test_a_finished_run_is_not_run_again_and_another_one_is_refused(features, tmp_path):
    first = run(settings_for(features), tmp_path / "run")
    assert run(settings_for(features), tmp_path / "run", progress=stop_at(0)) == first
    with pytest.raises(ConfigError, match="holds another run .it differs in seed."):
        run(settings_for(features, seed=5), tmp_path / "run")


def test_a_run_on_data_that_changed_is_another_run(features, tmp_path):
    run(settings_for(features), tmp_path / "run")
    write_features(features, seed=1)
    with pytest.raises(ConfigError, match="differs in data_fingerprint"):
        run(settings_for(features), tmp_path / "run")


class Poisoned(nn.Module):
    """A loss that breaks one part of a chosen step."""

    def __init__(self, *, part: str) -> None:
        super().__init__()
        self.part = part
        self.steps = 0

    def forward(self, embeddings, labels):
        self.steps += 1
        if self.steps == 4:
            if self.part == "loss":
                return embeddings.sum() * torch.nan
            if self.part == "gradient":
                return torch.sqrt(embeddings.sum() * 0)
        return embeddings.square().mean()


def poisoned_job(features, part, monkeypatch):
    registry = REGISTRIES["loss"]
    monkeypatch.setitem(registry._loaded, "poisoned", Poisoned)
    return settings_for(features, loss={"name": "poisoned", "part": part})


@pytest.mark.parametrize(
    ("part", "named"), [("loss", "the loss"), ("gradient", "the gradient of backbone|the gradient of head")]
)
def test_a_non_finite_number_stops_the_run_before_the_step_and_names_the_batch(
    features, tmp_path, monkeypatch, part, named
):
    settings = poisoned_job(features, part, monkeypatch)
    weights = []
    real = Adam._kind.step

    def counted(self, *arguments):
        weights.append(1)
        return real(self, *arguments)

    monkeypatch.setattr(Adam._kind, "step", counted)
    with pytest.raises(NonFiniteError, match=f"step 3: ({named}).*batch: row"):
        run(settings, tmp_path / "run")
    assert len(weights) == 3
    report = json.loads((tmp_path / "run" / "checkpoints" / "non_finite.json").read_text())
    assert report["step"] == 3
    assert len(report["batch"]) == 10


def test_a_non_finite_parameter_or_embedding_is_named(features, tmp_path, monkeypatch):
    real = Adam._kind.step
    calls: list[int] = []

    def break_weights(self, *args):
        real(self, *args)
        calls.append(1)
        if len(calls) == 2:
            with torch.no_grad():
                self.param_groups[0]["params"][0][0, 0] = torch.inf

    monkeypatch.setattr(Adam._kind, "step", break_weights)
    with pytest.raises(NonFiniteError, match="step 2: parameter head.weight is not finite"):
        run(settings_for(features), tmp_path / "run")


def test_batches_without_pairs_stop_the_run_with_advice(features, tmp_path):
    settings = settings_for(features, sampler="samples_per_class:batch_size=4,per_class=1", epochs=30, loss="triplet")
    with pytest.raises(BatchError, match="had no pair or tuple for the loss.*per_class >= 2"):
        run(settings, tmp_path / "run")


def test_a_losses_own_parameters_are_trained_at_their_own_rate():
    model = build_embedder("identity", input_shape=(3,), embedding_size=2)
    loss = REGISTRIES["loss"]["proxy_anchor"](num_classes=4, embedding_size=2)
    groups = Adam(lr=0.5).build(parameter_groups(Objective(model, loss))).param_groups
    assert [len(group["params"]) for group in groups] == [2, 1]
    assert groups[0]["lr"] == 0.5
    assert groups[1]["lr"] == loss.proxy_lr != 0.5
    assert groups[1]["weight_decay"] == 0


def test_a_loss_of_another_library_trains_in_the_same_loop(features, tmp_path, monkeypatch):
    foreign = pytest.importorskip("pytorch_metric_learning.losses")

    class Foreign(foreign.ProxyAnchorLoss):  # type: ignore[name-defined]  # a library that may not be installed
        """Another library's loss under the names of ours."""

        def __init__(self, *, num_classes: int, embedding_size: int) -> None:
            super().__init__(num_classes=num_classes, embedding_size=embedding_size)

    monkeypatch.setitem(REGISTRIES["loss"]._loaded, "foreign", Foreign)
    result = run(settings_for(features, loss="foreign", optimizer="adam:lr=0.01"), tmp_path / "run")
    losses = [row["loss"] for row in result["history"][1:]]
    assert losses[-1] < losses[0]


def test_every_ticket_has_a_key_of_its_own(features):
    prepared = prepare(settings_for(features))
    train = prepared.split.train
    dealt = REGISTRIES["sampler"]["samples_per_class"](batch_size=10).batches(prepared.catalogue.labels[train], 0)
    item_keys = [item_key for batch in ItemKeys(dealt, train, 0, 0, 50) for item_key in batch]
    assert len({item_key.key for item_key in item_keys}) == len(item_keys) == 500
    later = [item_key for batch in ItemKeys(dealt, train, 0, 20, 50) for item_key in batch]
    assert later == item_keys[200:]


def test_a_batch_of_two_views_holds_the_first_of_all_items_and_then_the_second(features):
    prepared = prepare(settings_for(features))
    train = prepared.split.train
    dealt = REGISTRIES["sampler"]["samples_per_class"](batch_size=10).batches(prepared.catalogue.labels[train], 0)
    for one, two in zip(ItemKeys(dealt, train, 0, 0, 5), ItemKeys(dealt, train, 0, 0, 5, views=2), strict=True):
        assert two[:10] == one
        assert [item_key.index for item_key in two[10:]] == [item_key.index for item_key in one]
        assert len({item_key.key for item_key in two}) == 20


def test_a_damaged_checkpoint_gives_way_to_the_one_before_and_two_damaged_ones_are_refused(features, tmp_path, caplog):
    settings = settings_for(features)
    run(settings, tmp_path / "whole")
    with pytest.raises(Stop):
        run(settings, tmp_path / "run", save_seconds=0, progress=stop_at(9))
    checkpoints = sorted((tmp_path / "run" / "checkpoints").iterdir())
    assert [path.name for path in checkpoints] == ["checkpoint-8", "checkpoint-9"]
    _flip(checkpoints[1] / "tensors.safetensors")
    with pytest.raises(Stop):
        run(settings, tmp_path / "run", progress=stop_at(9))
    assert "checkpoint-9 is damaged" in caplog.text
    _flip(checkpoints[0] / "state.json")
    with pytest.raises(CheckpointError, match="no checkpoint in .* can be used"):
        run(settings, tmp_path / "run")


def _flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_a_restored_optimiser_has_its_parameters_memory_layout():
    # Fused kernels walk parameter and moments side by side in memory, whatever their strides say.
    model = nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last)
    inputs = torch.linspace(-1, 1, 3 * 64).reshape(1, 3, 8, 8)
    optimizers = [torch.optim.Adam(model.parameters(), lr=0.1, fused=True) for _ in range(2)]
    model(inputs).square().sum().backward()
    optimizers[0].step()
    restore_optimizer(optimizers[1], *flatten_optimizer(optimizers[0]))
    for parameter in model.parameters():
        assert optimizers[1].state[parameter]["exp_avg"].stride() == parameter.stride()
        assert torch.equal(optimizers[1].state[parameter]["exp_avg"], optimizers[0].state[parameter]["exp_avg"])


def test_an_interrupt_in_the_middle_of_a_removal_leaves_nothing(features, tmp_path, monkeypatch):
    real = shutil.rmtree
    calls: list[Path] = []

    def interrupted(path, **options):
        if path.exists() and not calls:
            calls.append(path)
            raise KeyboardInterrupt
        real(path, **options)

    monkeypatch.setattr("unseen.core.files.shutil.rmtree", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(settings_for(features), tmp_path / "run", save_seconds=0)
    assert calls
    assert not list((tmp_path / "run").rglob(".tmp-*"))
