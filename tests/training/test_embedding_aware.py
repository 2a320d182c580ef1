"""Samplers that depend on the embeddings of the run: what the loop passes to them, and exact resuming."""

from typing import cast

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from tests.helpers.small_runs import (
    Stop,
    image_settings,
    settings_for,
    stop_at,
    without_times,
    write_features,
    write_images,
)
from unseen.core.registry import REGISTRIES
from unseen.runs import run
from unseen.samplers import BatchPosition
from unseen.training.stream import ItemKeys, stream

FED = ("ddm", "frd", "gc")


def sampler(name):
    # Runs here take their last weights: the best epoch could be one from before anything differs.
    return f"{name}:batch_size=10,per_class=2,big_batch_size=20"


@pytest.mark.parametrize("name", FED)
def test_a_fed_run_that_is_stopped_anywhere_and_continued_ends_as_one_that_was_not(tmp_path, name):
    settings = settings_for(write_features(tmp_path / "features.npz"), sampler=sampler(name), choose_by="last")
    whole = run(settings, tmp_path / "whole")
    # Within an epoch, at its end and at the first step of the next: an epoch has 4 steps.
    for step in (3, 8, 9, 18):
        with pytest.raises(Stop):
            run(settings, tmp_path / "parts", save_seconds=0, progress=stop_at(step))
    parts = run(settings, tmp_path / "parts")
    assert (tmp_path / "parts" / "model.safetensors").read_bytes() == (
        tmp_path / "whole" / "model.safetensors"
    ).read_bytes()
    assert without_times(parts) == without_times(whole)


def test_a_checkpoint_without_the_store_would_not_do(tmp_path, monkeypatch):
    """The store matters for what comes: a run resumed with its rows in another order ends elsewhere."""
    settings = settings_for(write_features(tmp_path / "features.npz"), sampler=sampler("gc"), choose_by="last")
    run(settings, tmp_path / "whole")
    with pytest.raises(Stop):
        run(settings, tmp_path / "parts", save_seconds=0, progress=stop_at(9))
    held = load_file(tmp_path / "parts" / "checkpoints" / "checkpoint-9" / "tensors.safetensors")
    assert {"sampler/rows", "sampler/drawn", "sampler/epoch"} < held.keys()
    restore = type(REGISTRIES["sampler"]["gc"]().batches(np.zeros(3), 0)).restore
    shuffled = {"rows": lambda rows: rows[::-1]}
    monkeypatch.setattr(
        "unseen.samplers.embedding_store.EmbeddingStoreBatches.restore",
        lambda self, state: restore(
            self, {name: shuffled.get(name, lambda x: x)(each) for name, each in state.items()}
        ),
    )
    run(settings, tmp_path / "parts")
    assert (tmp_path / "parts" / "model.safetensors").read_bytes() != (
        tmp_path / "whole" / "model.safetensors"
    ).read_bytes()


def test_loader_workers_change_nothing_though_they_ask_ahead(tmp_path):
    settings = image_settings(write_images(tmp_path / "images"), sampler=sampler("frd"), choose_by="last")
    for workers in (0, 2):
        run(settings, tmp_path / str(workers), workers=workers)
    assert (tmp_path / "0" / "model.safetensors").read_bytes() == (tmp_path / "2" / "model.safetensors").read_bytes()


class Recording:
    """Fed batches that write down what they are shown."""

    batches_per_epoch = 3

    def __init__(self, labels):
        self.labels, self.shown, self.asked = labels, [], []

    def batch(self, place):
        self.asked.append((place, len(self.shown)))
        return np.arange(4) + place.batch

    def start(self, embeddings):
        self.first = embeddings

    def observe(self, positions, embeddings):
        self.shown.append((positions.copy(), embeddings.copy()))

    def state(self):
        return {}

    def restore(self, state):
        raise AssertionError


def test_the_loop_shows_all_embeddings_first_and_then_those_of_every_step(tmp_path, monkeypatch):
    made = []

    class Recorded:
        """A sampler of recorded batches."""

        def batches(self, labels, seed):
            made.append(Recording(labels))
            return made[0]

    monkeypatch.setitem(REGISTRIES["sampler"]._loaded, "recorded", Recorded)
    features = write_features(tmp_path / "features.npz")
    run(settings_for(features, sampler="recorded", loss="proxy_anchor", epochs=2), tmp_path / "run")
    recording = made[0]
    assert recording.first.shape == (len(recording.labels), 6)
    assert [positions.tolist() for positions, _ in recording.shown] == [
        list(range(first, first + 4)) for first in (0, 1, 2) * 2
    ]
    # The first step's embeddings are those from before it; no layer here behaves otherwise in training.
    assert recording.shown[0][1] == pytest.approx(recording.first[:4], abs=1e-6)
    assert not np.allclose(recording.shown[3][1], recording.first[:4], atol=1e-4)
    # In one process a batch is asked for when it is needed: after all steps before it.
    assert [seen for _, seen in recording.asked] == list(range(6))


class Counting:
    """Items that give their own indices."""

    is_in_memory = False

    def __len__(self):
        return 20

    def __getitems__(self, item_keys):
        return torch.tensor([item_key.index for item_key in item_keys])


@pytest.mark.parametrize("workers", [0, 2])
def test_no_batch_of_an_epoch_is_asked_for_before_the_one_before_is_over(workers):
    recording = Recording(np.zeros(20))
    keys = ItemKeys(recording, np.arange(20), seed=0, first=1, last=8)
    batches = stream(Counting(), keys, workers=workers)  # type: ignore[arg-type]  # indices in place of inputs
    given = []
    for step, batch in enumerate(batches, start=1):
        given.append(cast(torch.Tensor, batch).tolist())
        recording.observe(np.arange(1), np.zeros((1, 1)))
        assert max(place.epoch for place, _ in recording.asked) == step // 3
    assert len(given) == 7
    assert given == [[item_key.index for item_key in item_keys] for item_keys in keys]
    assert recording.asked[0][0] == BatchPosition(0, 1)
