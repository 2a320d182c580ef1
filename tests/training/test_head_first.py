"""Head first: the backbone stands still in the first phase, and the schedule runs over each phase."""

from itertools import pairwise
from typing import Any

import pytest
import torch

from tests.helpers.small_runs import Stop, image_settings, stop_at, without_times, write_images
from unseen.core.errors import ConfigError
from unseen.methods import Objective
from unseen.models import build_embedder
from unseen.runs import prepare, run
from unseen.training import Constant, Cosine, parameter_groups
from unseen.training.head_first import HeadFirst


@pytest.fixture
def images(tmp_path):
    return write_images(tmp_path / "images")


def model():
    return build_embedder("convnet:base=4", input_shape=(3, 16, 16), embedding_size=5)


def test_each_phase_has_the_whole_schedule():
    phases = HeadFirst(model().backbone, 10)
    schedule = Cosine(warmup=2)
    head = [phases.factor(schedule, step, 30) for step in range(10)]
    rest = [phases.factor(schedule, step, 30) for step in range(10, 30)]
    assert head == [schedule.factor(step, 10) for step in range(10)]
    assert rest == [schedule.factor(step, 20) for step in range(20)]
    assert HeadFirst(model().backbone, 0).factor(Constant(), 3, 30) == 1


def test_only_what_was_trainable_becomes_trainable_again():
    backbone = model().backbone
    frozen = next(backbone.parameters()).requires_grad_(False)
    phases = HeadFirst(backbone, 2)
    phases.set_phase(0)
    assert not any(parameter.requires_grad for parameter in backbone.parameters())
    phases.set_phase(2)
    assert [parameter for parameter in backbone.parameters() if not parameter.requires_grad] == [frozen]


def test_the_backbone_moves_only_after_the_epochs_of_the_head(images, tmp_path, monkeypatch):
    snapshots = []
    monkeypatch.setattr(
        "unseen.training.loop._end_epoch",
        lambda job, state, best, *, seconds: snapshots.append(
            {name: tensor.clone() for name, tensor in job.objective.model.state_dict().items()}
        ),
    )
    run(image_settings(images, head_epochs=2) | {"batch_norm": "frozen"}, tmp_path / "run")
    assert len(snapshots) == 6  # before the first step, and after 2 + 3 epochs

    def moved(before, after):
        names = before.keys()
        return {name.split(".")[0] for name in names if not torch.equal(before[name], after[name])}

    assert [moved(*pair) for pair in pairwise(snapshots)] == [
        {"head"},
        {"head"},
        {"head", "backbone"},
        {"head", "backbone"},
        {"head", "backbone"},
    ]


@pytest.mark.parametrize("step", [3, 9])
def test_a_run_stopped_in_either_phase_continues_to_the_same_bits(images, tmp_path, step):
    settings = image_settings(images, head_epochs=2, head_lr=3e-2, average=0.9, blend="auto")
    whole = run(settings, tmp_path / "whole")
    epoch = whole["history"][1]["step"]
    assert 3 < 2 * epoch < 9 < 5 * epoch
    with pytest.raises(Stop):
        run(settings, tmp_path / "parts", save_seconds=0, progress=stop_at(step))
    parts = run(settings, tmp_path / "parts")
    assert without_times(parts) == without_times(whole)
    final = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "parts")]
    assert final[0] == final[1]


def test_the_head_has_its_own_learning_rate():
    objective = Objective(model(), torch.nn.Identity())
    groups = parameter_groups(objective, head_lr=0.1)
    assert [group.get("lr") for group in groups] == [None, 0.1]
    assert {id(p) for p in groups[1]["params"]} == {id(p) for p in objective.model.head.parameters()}
    together = [id(parameter) for group in groups for parameter in group["params"]]
    assert sorted(together) == sorted(id(parameter) for parameter in objective.model.parameters())


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "frozen": ({"head_epochs": 1, "depth": "frozen"}, "head_epochs come before"),
    "nothing after": ({"head_epochs": 1, "epochs": 0}, "head_epochs come before"),
    "no head": ({"head_epochs": 1, "embedding_size": None}, "need a head"),
    "no head for a rate": ({"head_lr": 0.1, "embedding_size": None}, "need a head"),
    "no rate": ({"head_lr": 0}, "head_lr must be"),
    "no loss": ({"head_lr": 0.1, "loss": None}, "head_lr applies to training"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_done_is_refused(images, case):
    settings, message = REFUSED[case]
    with pytest.raises(ConfigError, match=message):
        prepare(image_settings(images) | settings)
