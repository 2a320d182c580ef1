"""The optimizers are torch's own, without the import of its compiler."""

import os
import subprocess
import sys

import pytest
import torch
from torch import nn

from tests.helpers.small_runs import write_features
from unseen.training import SGD, Adam, AdamW
from unseen.training.optimizers import OptimizerSettings

CASES = [
    (Adam(lr=0.1, weight_decay=0.2), torch.optim.Adam, {"lr": 0.1, "weight_decay": 0.2, "fused": True}),
    (AdamW(lr=0.1, weight_decay=0.2), torch.optim.AdamW, {"lr": 0.1, "weight_decay": 0.2, "fused": True}),
    (SGD(lr=0.1, momentum=0.8), torch.optim.SGD, {"lr": 0.1, "momentum": 0.8, "weight_decay": 1e-4, "fused": True}),
]


@pytest.mark.parametrize(("settings", "theirs", "options"), CASES, ids=["adam", "adamw", "sgd"])
def test_steps_and_states_have_the_bits_of_torchs_own(settings: OptimizerSettings, theirs, options):
    torch.manual_seed(0)
    start = torch.randn(2, 5)
    weights = [nn.Parameter(start.clone()) for _ in range(2)]
    optimizers = [settings.build([{"params": weights[:1]}]), theirs([{"params": weights[1:]}], **options)]
    for step in range(5):
        for weight, optimizer in zip(weights, optimizers, strict=True):
            optimizer.zero_grad()
            assert weight.grad is None
            (weight**2 * (step + 1)).sum().backward()
            optimizer.step()
            assert not weight.grad_fn  # the step is no part of a graph
    assert torch.equal(*weights)
    assert isinstance(optimizers[0], theirs)
    assert str(optimizers[0].state_dict()) == str(optimizers[1].state_dict())


def test_a_run_does_not_import_the_compiler(tmp_path):
    # Two seconds of every run, every worker of a study, and every command that trains.
    code = """
import sys, unseen
from tests.helpers.small_runs import settings_for
for optimizer in ("adam", "adamw", "sgd"):
    unseen.run(settings_for("features.npz", optimizer=optimizer), optimizer)
loaded = {"torch._dynamo", "torch._inductor"} & set(sys.modules)
assert not loaded, loaded
"""
    write_features(tmp_path / "features.npz")
    settings = {"cwd": tmp_path, "env": os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}, "timeout": 300}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, **settings)
    assert done.returncode == 0, done.stderr
