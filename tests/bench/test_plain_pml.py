"""The plain script beside bench/quality: what the option about batch norm keeps."""

import time

import pytest
import torch

from bench.pipeline import draw_files

plain_pml = pytest.importorskip("bench.plain_pml", reason="needs pytorch-metric-learning, timm and torchvision")


@pytest.mark.parametrize("freeze_batch_norm", [False, True])
def test_statistics_of_batch_norm_move_unless_frozen(tmp_path, freeze_batch_norm, monkeypatch):
    monkeypatch.setattr(plain_pml, "WORKERS", 0)
    monkeypatch.setattr(plain_pml, "SIZE", 64)
    draw_files(tmp_path, classes=2, of_a_class=4)
    files = sorted(tmp_path.rglob("*.jpg"))
    start = plain_pml.new_model()
    torch.save(start[0].state_dict(), tmp_path / "start.pt")
    task = {
        "files": [str(file) for file in files],
        "labels": [int(file.parent.name == files[0].parent.name) for file in files],
        "weights": str(tmp_path / "start.pt"),
    }
    saved = {}
    plain_pml.train(
        task,
        marks=[0.0],
        began=time.monotonic(),
        seed=0,
        save=lambda minute, model: saved.update({minute: model.state_dict()}),
        freeze_batch_norm=freeze_batch_norm,
    )
    before, after = start[0].state_dict(), saved[0.0]
    assert torch.equal(before["bn1.running_mean"], after["0.bn1.running_mean"]) == freeze_batch_norm
    assert not torch.equal(before["conv_stem.weight"], after["0.conv_stem.weight"]), "the weights are trained"
