"""Runs whose batches depend on their own embeddings, killed at random moments, end as an undisturbed one."""

import pytest

from tests.crash.harness import fresh_draws, killed
from tests.helpers.small_runs import settings_for, without_times, write_features
from unseen.runs import run


@pytest.mark.crash
@pytest.mark.parametrize("name", ["ddm", "frd", "gc"])
def test_kills_at_random_moments_change_no_bit_of_a_fed_run(tmp_path, name):
    draws = fresh_draws()
    settings = settings_for(
        write_features(tmp_path / "features.npz"),
        sampler=f"{name}:batch_size=10,per_class=2,big_batch_size=20",
        epochs=20,
        choose_by="last",
    )
    whole = run(settings, tmp_path / "whole")

    def child(acknowledge):
        run(settings, tmp_path / "run", save_seconds=0, progress=lambda done, total, words: acknowledge(done))
        acknowledge("finished")

    for _ in range(4):
        killed(child, when=draws.uniform(0.05, 0.6))
    assert without_times(run(settings, tmp_path / "run")) == without_times(whole)
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == (
        tmp_path / "whole" / "model.safetensors"
    ).read_bytes()
