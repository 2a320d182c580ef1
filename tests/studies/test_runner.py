"""The runner ends every cell as done, failed with its sentence, or skipped. Kills: tests/crash/test_study.py."""

import os
from pathlib import Path

import pytest

from tests.studies import toy_cells
from unseen.core.config import hash_of
from unseen.core.errors import ConfigError, UnseenError
from unseen.core.processes import identity
from unseen.studies.executors import LocalExecutor
from unseen.studies.executors.base import Ended, Failed, Finished, Progressed, Ready
from unseen.studies.plan import Cell
from unseen.studies.runner import STORE, RunnerSettings, run_study, seconds_left
from unseen.studies.store import Store


def make_cells(*deeds, skip=""):
    configs = [{"does": deed, "number": number} for number, deed in enumerate(deeds)]
    return [Cell(hash_of(config), "toy", "all", config["does"], config["number"], config, skip) for config in configs]


def run(cells, folder, *, workers=2, threads=1, plan=None, **settings):
    executor = LocalExecutor(toy_cells.deadly_cell, workers=workers, threads=threads)
    return run_study(cells, folder, executor, plan=plan, settings=RunnerSettings(**{"quiet": True, **settings}))


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
    assert raised == "'birds' holds no image. Use a folder with one sub-folder per class."
    assert broke == "ZeroDivisionError: in ~/secret (the last of 3 attempts that went wrong)"
    assert nonsense.startswith("a cell must return JSON without NaN")
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
    monkeypatch.setattr("unseen.studies.executors.local.subprocess.Popen", None)
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


def test_cells_get_the_cache_of_the_study_and_keep_their_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outcome = run(make_cells("well"), tmp_path / "study", cache=Path("shared"))
    with Store(outcome.store) as store:
        (result,) = store.results()
    assert result.content["cache"] == str(tmp_path / "shared")
    assert result.cell == make_cells("well")[0]


class InThisProcess:
    """An executor without processes: cells run when they are sent; every second worker is lost with its cell."""

    workers = 2

    def __init__(self):
        self.messages = []
        self.started = self.sent = 0
        self.is_stopped = False

    def start(self, of):
        self.started += 1
        worker = identity()
        self.messages.append(Ready(worker))
        return worker

    def send(self, worker, job):
        self.sent += 1
        if self.sent % 2 == 0:
            self.messages.append(Ended(worker, "the machine was lost"))
        else:
            self.messages += [Progressed(worker, 1, 2, "half"), Finished(worker, job.cell, {"config": job.config})]

    def receive(self, timeout):
        messages, self.messages = self.messages, []
        return messages

    def stop(self, *, gracefully):
        self.is_stopped = gracefully


def test_the_runner_needs_nothing_of_an_executor_but_its_protocol(tmp_path):
    executor = InThisProcess()
    cells = make_cells("a", "b", "c", "d")
    outcome = run_study(cells, tmp_path, executor, settings=RunnerSettings(quiet=True, max_attempts=10))
    assert [state.state for state in outcome.cells] == ["done"] * 4
    assert executor.started > 2, "lost workers are replaced"
    assert executor.is_stopped
    with Store(outcome.store) as store:
        assert [result.content["config"] for result in store.results()] == [cell.config for cell in cells]
        lost = [state.faults for state in store.cells()]
    assert sum(lost) == executor.sent - 4


def test_skipped_cells_do_not_run(tmp_path):
    outcome = run(make_cells("die", skip="it would die"), tmp_path)
    assert [(state.state, state.error) for state in outcome.cells] == [("skipped", "it would die")]
    assert not (tmp_path / "cells").exists()


def test_a_function_that_workers_cannot_import_is_refused_before_anything_starts(tmp_path):
    def inner(job, progress):
        return {}

    for function in (inner, toy_cells.Nested.cell):
        with pytest.raises(ConfigError, match="Define it at the top level of a module"):
            run_study(make_cells("well"), tmp_path / "study", LocalExecutor(function))
    assert not (tmp_path / "study").exists()


def test_workers_that_cannot_start_are_an_error_and_no_fault_of_the_cells(tmp_path, monkeypatch):
    monkeypatch.setattr("unseen.studies.executors.local.import_path", lambda function: ("no_such_module", "cell"))
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


class SlowToEnd(InThisProcess):
    """Every worker breaks its first cell and takes its time to end; a cell sent to it meanwhile is lost."""

    def __init__(self):
        super().__init__()
        self.broken = []
        self.lost = 0

    def send(self, worker, job):
        if worker in self.broken:
            self.lost += 1
        elif len(self.broken) < 2:
            self.broken.append(worker)
            self.messages.append(Failed(worker, job.cell, "the device is busy", is_final=False))
        else:
            self.messages.append(Finished(worker, job.cell, {}))

    def receive(self, timeout):
        messages, self.messages = self.messages, []
        ended = [message.worker for message in messages if isinstance(message, Failed)]
        self.messages = [Ended(worker, "its process ended with exit code 0") for worker in ended]
        return messages


def test_a_worker_that_is_about_to_end_gets_no_other_cell(tmp_path):
    executor = SlowToEnd()
    outcome = run_study(make_cells("a", "b", "c"), tmp_path, executor, settings=RunnerSettings(quiet=True))
    assert outcome.done == 3
    assert executor.lost == 0
    assert sum(state.faults for state in outcome.cells) == 2
