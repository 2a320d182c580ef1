"""A study runs each cell exactly once, whatever dies."""

import os
import signal
import time
from collections import Counter
from multiprocessing.connection import wait
from pathlib import Path

import pytest

from tests.crash.crash_cells import short_cell
from tests.crash.harness import Forked, dies_at, fresh_draws
from unseen.core.config import hash_of
from unseen.core.errors import StoreError
from unseen.studies.executors import LocalExecutor
from unseen.studies.plan import Cell
from unseen.studies.runner import STORE, RunnerSettings, run_study
from unseen.studies.store import Store

WORKERS = 2


def make_cells(number, seconds=0.2):
    configs = [{"number": position, "seconds": seconds} for position in range(number)]
    return [Cell(hash_of(config), "toy", "all", "short", config["number"], config) for config in configs]


def run_short(cells, folder, **settings):
    executor = LocalExecutor(short_cell, workers=WORKERS, threads=1)
    return run_study(cells, folder, executor, settings=RunnerSettings(quiet=True, **settings))


def runner_of(cells, folder):
    def run(acknowledge):
        # Kills by the test are no fault of a cell, so the bound on faults must not end it.
        outcome = run_short(cells, folder, max_attempts=1000)
        acknowledge(outcome.done)

    return run


def children_of(pid):
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def lives(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.crash
def test_sixty_cells_get_sixty_results_through_forty_kills_of_workers_and_runner(tmp_path):
    draws = fresh_draws()
    cells = make_cells(60)
    kills: Counter[str] = Counter()
    workers_seen: set[int] = set()
    done: list[int] = []
    while not done:
        runner = Forked(runner_of(cells, tmp_path))
        while not done and runner.is_open:
            # Kills come faster than cells at times, slower at others.
            until = time.monotonic() + draws.uniform(0.02, 0.6)
            while runner.is_open and time.monotonic() < until:
                if wait_readable(runner, until):
                    runner.listen()
            workers = children_of(runner.pid)
            workers_seen.update(workers)
            if not runner.is_open or kills.total() >= 40:
                continue
            if draws.random() < 0.35 or not workers:
                kills["runner"] += 1
                os.kill(runner.pid, signal.SIGKILL)
                break
            kills["worker"] += 1
            victim = draws.choice(workers)
            if victim in children_of(runner.pid):  # dead or alive, its number is its own until its runner waits for it
                os.kill(victim, signal.SIGKILL)
        runner.end()
        done += runner.acknowledged
    print(dict(kills))
    assert done == [60]
    assert kills.total() >= 20
    with Store(tmp_path / STORE) as store:
        states, results = store.cells(), store.results()
    assert {state.state for state in states} == {"done"}
    assert [result.content["number"] for result in results] == list(range(60))
    assert all(result.content["square"] == result.content["number"] ** 2 for result in results)
    # A killed runner takes its workers with it: up to that many cells begin again.
    assert sum(state.attempts for state in states) <= 60 + kills["worker"] + WORKERS * kills["runner"]
    assert not [pid for pid in workers_seen if lives(pid)], "a worker outlived its runner"
    assert not list(tmp_path.glob(".tmp-*"))


def wait_readable(runner, until):
    return wait([runner.pipe], timeout=max(0.0, until - time.monotonic()))


@pytest.mark.crash
@pytest.mark.parametrize("point", ["runner.after_claim", "runner.before_finish", "store.after_commit"])
def test_a_runner_that_dies_at_a_point_is_continued_by_the_next(tmp_path, point):
    cells = make_cells(4, seconds=0.01)
    dies_at(point, runner_of(cells, tmp_path))
    outcome = run_short(cells, tmp_path)
    assert outcome.done == 4
    with Store(tmp_path / STORE) as store:
        assert [result.content["number"] for result in store.results()] == [0, 1, 2, 3]
        assert sum(state.faults for state in store.cells()) == 0, "a killed runner is no fault of a cell"


@pytest.mark.crash
def test_the_workers_of_a_killed_runner_die_with_it(tmp_path):
    runner = Forked(runner_of(make_cells(2, seconds=60), tmp_path))
    workers = started_workers(tmp_path, runner)
    runner.kill()
    until = time.monotonic() + 10
    while any(lives(pid) for pid in workers) and time.monotonic() < until:
        pass
    assert not [pid for pid in workers if lives(pid)]


def started_workers(folder, runner):
    """Wait until both cells run; returns the workers' pids."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if (folder / "cells").exists() and len(list((folder / "cells").iterdir())) == 2:
            return children_of(runner.pid)
        wait_readable(runner, time.monotonic() + 0.05)
    raise AssertionError("the study did not start")


@pytest.mark.crash
def test_an_interrupt_ends_the_workers_gives_the_cells_back_and_goes_on(tmp_path):
    cells = make_cells(2, seconds=60)

    def run(acknowledge):
        try:
            run_short(cells, tmp_path)
        except KeyboardInterrupt:
            acknowledge("interrupted")

    runner = Forked(run)
    workers = started_workers(tmp_path, runner)
    os.kill(runner.pid, signal.SIGINT)
    assert runner.end() == 0
    assert runner.acknowledged == ["interrupted"]
    assert not [pid for pid in workers if lives(pid)]
    with Store(tmp_path / STORE) as store:
        assert store.counts()["waiting"] == 2
        assert [state.faults for state in store.cells()] == [0, 0]


@pytest.mark.crash
def test_a_second_runner_on_the_same_folder_is_refused(tmp_path):
    cells = make_cells(2, seconds=60)
    runner = Forked(runner_of(cells, tmp_path))
    try:
        started_workers(tmp_path, runner)
        with pytest.raises(StoreError, match="another process already runs the study"):
            run_short(cells, tmp_path)
    finally:
        runner.kill()
