"""The folder of a run: what it holds, whose it is, and what a kill may leave in it."""

import pytest

from tests.helpers.small_runs import settings_for, write_features
from unseen.core.errors import ConfigError
from unseen.runs import RunFolder, prepare, run
from unseen.runs import run_folder as names


@pytest.fixture
def settings(tmp_path):
    return settings_for(write_features(tmp_path / "features.npz"), epochs=1)


def test_a_finished_run_has_all_its_files_and_they_can_be_read(settings, tmp_path):
    result = run(settings, tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    files = {path.name for path in folder.path.iterdir()} - {".lock"}
    assert files == {
        names.RUN_FILE,
        names.RESULT_FILE,
        names.WEIGHTS_FILE,
        names.REPORT_SAMPLE_FILE,
        names.DRAWS_FILE,
    }
    assert (folder.is_run, folder.is_finished) == (True, True)
    assert folder.result() == result
    assert folder.recipe() == prepare(settings).recipe.to_mapping()
    assert folder.load_weights()
    sample, draws = folder.report_sample(), folder.draws()
    assert sample is not None
    assert draws is not None
    assert len(draws.replicates["recall@1"]) == draws.bootstrap.draws


def test_an_empty_folder_is_no_run(tmp_path):
    folder = RunFolder(tmp_path)
    assert (folder.is_run, folder.is_finished) == (False, False)
    assert folder.report_sample() is None
    assert folder.draws() is None
    assert not folder.holds({"seed": 0})


def test_another_run_is_refused_with_the_settings_that_differ(settings, tmp_path):
    run(settings, tmp_path / "run")
    with pytest.raises(ConfigError, match=r"holds another run \(it differs in epochs, seed\)"):
        run(settings | {"epochs": 2, "seed": 1}, tmp_path / "run")


def test_two_processes_never_write_to_one_run(settings, tmp_path):
    recipe = prepare(settings).recipe.to_mapping()
    folder = RunFolder(tmp_path / "run")
    with folder.claimed(recipe, "1.0"), pytest.raises(ConfigError, match="another process is at work"):
        run(settings, tmp_path / "run")
    assert run(settings, tmp_path / "run")["chosen_epoch"] is not None


def test_what_a_kill_after_the_result_left_goes_when_the_run_is_asked_for_again(settings, tmp_path):
    # A kill between the result and the end of the removal of the checkpoints.
    result = run(settings, tmp_path / "run")
    leftover = tmp_path / "run" / ".tmp-999999999-0"
    for folder in (leftover, tmp_path / "run" / names.CHECKPOINTS):
        folder.mkdir()
        (folder / "state.json").touch()
    assert run(settings, tmp_path / "run") == result
    assert not leftover.exists()
    assert not (tmp_path / "run" / names.CHECKPOINTS).exists()
