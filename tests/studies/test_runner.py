"""The runner ends every cell as done, failed with its sentence, or skipped. Kills: tests/crash/test_study.py."""

import os
from pathlib import Path

import pytest

from tests.studies import toy_cells
from unseen.core.config import hash_of
from unseen.core.errors import ConfigError, UnseenError
from unseen.studies.plan import Cell
from unseen.studies.runner import STORE, run_study, seconds_left
from unseen.studies.store import Store


def make_cells(*deeds, skip=""):
    configs = [{"does": deed, "number": number} for number, deed in enumerate(deeds)]
    return [Cell(hash_of(config), "toy", "all", config["does"], config["number"], config, skip) for config in configs]


def run(cells, folder, **settings):
    return run_study(cells, folder, toy_cells.deadly_cell, **({"workers": 2, "threads": 1, "quiet": True} | settings))


def attempts_of(folder, cell):
    return len((folder / "cells" / cell.name / "attempts").read_text())


def test_every_cell_ends_in_its_own_way_and_the_others_still_run(tmp_path):
    cells = make_cells("well", "die", "raise", "break", "not a number", "break once", "well")
    outcome = run(cells, tmp_path, plan={"name": "demo"})
    assert [state.state for state in outcome.cells] == ["done", "failed", "failed", "failed", "failed", "done", "done"]
    assert [attempts_of(tmp_path, cell) for cell in cells] == [1, 3, 1, 3, 1, 2, 1]
    assert outcome.done == outcome.finished_now == 3
    died, raised, broke, nonsense = (state.error for state in outcome.failed)
    assert died == "its process ended with signal SIGKILL (the last of 3 attempts that went wrong)"
    assert raised == "'birds' holds no image; use a folder with one sub-folder per class"
    assert broke == "ZeroDivisionError: in ~/secret (the last of 3 attempts that went wrong)"
    assert nonsense.startswith("a cell must give JSON without NaN")
    with Store(outcome.store) as store:
        assert [result.cell for result in store.results()] == [cells[0], cells[5], cells[6]]
        assert store.plan() == {"name": "demo"}
        for result in store.results():
            assert result.content["threads"] == "1"
            assert result.content["stdin"] == ""
            assert result.content["is_light"], "a worker imports nothing heavy that its cell did not ask for"

    # A second time there is nothing to do, and failed cells stay failed until somebody asks.
    again = run(cells, tmp_path)
    assert again.finished_now == 0
    assert again.cells == outcome.cells
    retried = run(cells, tmp_path, retry_failed=True, max_attempts=1)
    assert retried.finished_now == 0
    assert [attempts_of(tmp_path, cell) for cell in cells] == [1, 4, 2, 4, 2, 2, 1]


def test_a_study_that_is_done_starts_no_process(tmp_path, monkeypatch):
    run(make_cells("well"), tmp_path)
    monkeypatch.setattr("unseen.studies.worker_process.subprocess.Popen", None)
    assert run(make_cells("well"), tmp_path).done == 1


def test_one_worker_does_many_cells_and_another_plan_leaves_their_results(tmp_path):
    first = make_cells("well", "well", "well")
    run(first, tmp_path, workers=1)
    with Store(tmp_path / STORE) as store:
        assert len({result.content["process"] for result in store.results()}) == 1
        before = store.results()
    outcome = run(make_cells("other"), tmp_path)
    assert [state.cell.method for state in outcome.cells] == ["other"]
    grown = run([*first, *make_cells("other")], tmp_path)
    assert (grown.done, grown.finished_now) == (4, 0)
    with Store(tmp_path / STORE) as store:
        assert store.results()[:3] == before


def test_skipped_cells_do_not_run(tmp_path):
    outcome = run(make_cells("die", skip="it would die"), tmp_path)
    assert [(state.state, state.error) for state in outcome.cells] == [("skipped", "it would die")]
    assert not (tmp_path / "cells").exists()


def test_a_function_that_workers_cannot_import_is_refused_before_anything_starts(tmp_path):
    def inner(config, folder, progress):
        return {}

    for function in (inner, toy_cells.Nested.cell):
        with pytest.raises(ConfigError, match="use a function at the top of a module"):
            run_study(make_cells("well"), tmp_path / "study", function)
    assert not (tmp_path / "study").exists()


def test_workers_that_cannot_start_are_an_error_and_no_fault_of_the_cells(tmp_path, monkeypatch):
    monkeypatch.setattr("unseen.studies.runner.address_of", lambda function: ("no_such_module", "cell"))
    with pytest.raises(UnseenError, match=r"do not start: its process ended with exit code 1 .*no_such_module"):
        run(make_cells("well"), tmp_path)
    with Store(tmp_path / STORE) as store:
        assert [(state.state, state.attempts) for state in store.cells()] == [("waiting", 0)]


@pytest.mark.parametrize("settings", [{"workers": 0}, {"threads": 0}, {"max_attempts": 0}])
def test_settings_out_of_range_are_refused(tmp_path, settings):
    with pytest.raises(ConfigError, match=r"must be an integer >= 1; got 0"):
        run(make_cells("well"), tmp_path, **settings)


def test_no_host_name_or_home_path_is_written_into_the_store(tmp_path):
    run(make_cells("well", "break"), tmp_path, max_attempts=1)
    written = (tmp_path / STORE).read_bytes()
    assert str(Path.home()).encode() + b"/" not in written
    assert os.uname().nodename.encode() not in written


def test_what_workers_print_and_how_cells_fail_is_shown_unless_quiet(tmp_path, capfd):
    run(make_cells("well", "raise"), tmp_path, quiet=False)
    shown = capfd.readouterr()
    assert shown.out == ""
    assert "what a cell prints is no news" in shown.err
    assert "toy / all / raise / seed 1: 'birds' holds no image" in shown.err
    run(make_cells("well", "raise"), tmp_path / "quiet", quiet=True)
    assert capfd.readouterr() == ("", "")


def test_time_left_is_known_from_the_cells_of_the_same_method():
    assert seconds_left(["slow"], [], {}, 2) is None
    assert seconds_left(["slow"] * 4, [], {"slow": [10.0, 20.0]}, 2) == 30.0
    assert seconds_left(["slow", "quick"], [], {"slow": [10.0], "quick": [2.0]}, 1) == 12.0
    assert seconds_left(["unknown"], [], {"slow": [10.0], "quick": [2.0]}, 1) == 6.0


def test_time_left_counts_the_cells_in_hand_by_what_they_told():
    assert seconds_left([], [("slow", 5.0, 0.25)], {}, 2) == 15.0, "one cell runs on one worker"
    assert seconds_left(["slow"] * 3, [("slow", 5.0, 0.5)], {}, 1) == 35.0
    assert seconds_left([], [("slow", 4.0, 0.0)], {"slow": [10.0]}, 1) == 6.0
    assert seconds_left([], [("slow", 40.0, 0.0)], {"slow": [10.0]}, 1) == 0.0
