"""Training runs killed at random moments end, bit for bit, as an undisturbed one."""

import json
from pathlib import Path

import pytest

from tests.crash.harness import dies_at, fresh_draws, killed
from tests.helpers.small_runs import image_settings, settings_for, without_times, write_features, write_images
from unseen.runs import run

KILLS = 10
RECIPES = {
    "triplet, distance mining": {"loss": "triplet", "miner": "distance", "epochs": 12},
    "margin, learnt boundaries": {"loss": "margin:beta_mode=per_class", "miner": "distance", "epochs": 12},
    "proxy anchor, adamw, cosine": {"loss": "proxy_anchor", "optimizer": "adamw", "schedule": "cosine", "epochs": 12},
    "cross-batch memory": {"loss": "cross_batch_memory:loss=(margin:miner=distance),size=32", "epochs": 12},
    "S2SD": {
        "loss": "margin",
        "miner": "rho_distance",
        "method": "s2sd:targets=[10,12],delay=9",
        "epochs": 12,
    },
    "DiVA": {
        "loss": "margin:beta_mode=per_class",
        "miner": "distance",
        "embedding_size": 8,
        "method": "diva:queue_size=24,decorrelation=3.0",
        "epochs": 12,
    },
    "mixup": {"loss": "normalized_softmax", "method": "mixup", "epochs": 12},
    "softmax, sgd, clipped": {"loss": "normalized_softmax", "optimizer": "sgd", "clip_gradients": 1.0, "epochs": 12},
}

AUGMENTED = {
    "augmented image files, two loader workers": {"loss": "multi_similarity"},
    "uniform prior, augmented image files, two loader workers": {
        "loss": "multi_similarity",
        "method": "uniform_prior:chunk=16,interval=2,lr=0.01",
    },
}


def folder_is_sound(folder: Path) -> None:
    """Every checkpoint that has its name is whole."""
    for manifest in folder.glob("checkpoints/checkpoint-*/manifest.json"):
        json.loads(manifest.read_text())
    for checkpoint in folder.glob("checkpoints/checkpoint-*"):
        assert {path.name for path in checkpoint.iterdir()} == {"manifest.json", "state.json", "tensors.safetensors"}


@pytest.mark.crash
@pytest.mark.parametrize("recipe", [*RECIPES, *AUGMENTED])
def test_ten_kills_at_random_moments_change_no_bit(tmp_path, recipe):
    draws = fresh_draws()
    if recipe in AUGMENTED:
        settings, workers = image_settings(write_images(tmp_path / "images"), **AUGMENTED[recipe]), 2
    else:
        settings, workers = settings_for(write_features(tmp_path / "features.npz"), **RECIPES[recipe]), 0
    whole = run(settings, tmp_path / "whole")
    expected = (tmp_path / "whole" / "model.safetensors").read_bytes()
    kills, attempt = 0, 0
    while kills < KILLS:
        attempt += 1
        folder = tmp_path / f"run-{attempt}"
        for _ in range(3):

            def child(acknowledge, folder=folder):
                run(
                    settings,
                    folder,
                    workers=workers,
                    save_seconds=0,
                    progress=lambda done, total, words: acknowledge(done),
                )
                acknowledge("finished")

            told = killed(child, when=draws.uniform(0.02, 0.8))
            folder_is_sound(folder)
            if "finished" in told:
                break
            kills += 1
        # Resumed with another number of loader workers than it began with.
        parts = run(settings, folder, workers=0)
        assert (folder / "model.safetensors").read_bytes() == expected
        assert without_times(parts) == without_times(whole)
        assert not list(folder.rglob(".tmp-*"))


@pytest.mark.crash
@pytest.mark.parametrize("point", ["checkpoint.before_rename", "folder.before_rename", "checkpoint.before_cleaning"])
def test_a_kill_in_the_middle_of_a_checkpoint_changes_no_bit(tmp_path, point):
    features = write_features(tmp_path / "features.npz")
    settings = settings_for(features)
    whole = run(settings, tmp_path / "whole")
    dies_at(point, lambda acknowledge: run(settings, tmp_path / "run", save_seconds=0))
    folder_is_sound(tmp_path / "run")
    assert without_times(run(settings, tmp_path / "run")) == without_times(whole)
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == (
        tmp_path / "whole" / "model.safetensors"
    ).read_bytes()
