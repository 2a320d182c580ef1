"""Checkpoints are complete or absent, never torn, and a damaged one is never loaded."""

import os
import platform
import shutil
import socket

import pytest
import torch

from tests.crash.harness import fresh_draws, killed, limited, sha256_tree
from tests.helpers.small_runs import Stop, settings_for, stop_at, without_times, write_features
from unseen.core.errors import CheckpointError
from unseen.core.files import sweep
from unseen.runs import run
from unseen.training.checkpoints import Checkpoint, load_checkpoint, save_checkpoint


def state_at(step: int, megabytes: int) -> Checkpoint:
    """A state whose every number tells its step."""
    tensors = {"weights": torch.full((megabytes * 2**18,), float(step)), "step": torch.tensor(step)}
    return Checkpoint(step, tensors, {"step": step})


@pytest.mark.crash
@pytest.mark.parametrize(("megabytes", "kills"), [(1, 30), (48, 20)])
def test_a_killed_writer_loses_no_step_it_acknowledged(tmp_path, megabytes, kills):
    draws = fresh_draws()
    acknowledged = 0
    for _ in range(kills):
        first = acknowledged + 1

        def child(acknowledge, first=first):
            for step in range(first, first + 1000):
                save_checkpoint(tmp_path, state_at(step, megabytes), config_hash="same")
                acknowledge(step)

        acknowledged = max([acknowledged, *killed(child, when=draws.uniform(0.05, 0.4))])
        found = load_checkpoint(tmp_path, config_hash="same")
        if acknowledged:
            assert found is not None
            assert found.step >= acknowledged
            assert found.state == {"step": found.step}
            assert bool((found.tensors["weights"] == found.step).all())
            acknowledged = found.step
        assert len(list(tmp_path.iterdir())) <= 3  # at most two, and one more if the kill came before the cleaning
    sweep(tmp_path)
    assert not list(tmp_path.glob(".tmp-*"))


def test_one_flipped_bit_anywhere_is_refused(tmp_path):
    draws = fresh_draws()
    save_checkpoint(tmp_path / "whole", state_at(7, 0), config_hash="same")
    files = sorted((tmp_path / "whole" / "checkpoint-7").iterdir())
    for number in range(200):
        copy = tmp_path / f"copy-{number}"
        shutil.copytree(tmp_path / "whole", copy)
        path = copy / "checkpoint-7" / files[number % len(files)].name
        content = bytearray(path.read_bytes())
        place = draws.randrange(len(content))
        content[place] ^= 1 << draws.randrange(8)
        path.write_bytes(content)
        try:
            found = load_checkpoint(copy, config_hash="same")
        except CheckpointError:
            continue
        # A flip inside the manifest may touch only a version number or white space; the content is still true.
        assert path.name == "manifest.json"
        assert found is not None
        assert found.state == {"step": 7}


def test_a_write_that_fails_is_named_and_harms_nothing_old(tmp_path):
    settings = settings_for(write_features(tmp_path / "features.npz"))
    whole = run(settings, tmp_path / "whole")

    with pytest.raises(Stop):
        run(settings, tmp_path / "run", save_seconds=0, progress=stop_at(6))
    before = sha256_tree(tmp_path / "run" / "checkpoints")
    for bytes_left in (0, 100, 1000):

        def child(acknowledge):
            try:
                run(settings, tmp_path / "run", save_seconds=0)
            except (OSError, CheckpointError) as problem:
                os._exit(7 if "large" in str(problem) else 8)

        assert limited(child, file_size=bytes_left) == 7
        assert sha256_tree(tmp_path / "run" / "checkpoints") == before
    assert without_times(run(settings, tmp_path / "run")) == without_times(whole)
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == (
        tmp_path / "whole" / "model.safetensors"
    ).read_bytes()


def test_no_secret_of_the_environment_and_no_home_path_is_written(tmp_path, monkeypatch):
    home = tmp_path / "home" / "somebody-by-name"
    home.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("WANDB_API_KEY", "canary-4711-token")
    # A long name: two letters of a real one may stand in a compressed file by chance.
    named = os.uname_result(("Linux", "machine-by-name", *os.uname()[2:]))
    monkeypatch.setattr(os, "uname", lambda: named)
    for module, function in ((socket, "gethostname"), (platform, "node")):
        monkeypatch.setattr(module, function, lambda: "machine-by-name")
    settings = settings_for(write_features(home / "features.npz"), epochs=2)
    run(settings, tmp_path / "run", save_seconds=0)
    for path in (tmp_path / "run").rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert b"canary-4711-token" not in content, path
            assert b"somebody-by-name" not in content, path
            assert b"machine-by-name" not in content, path
