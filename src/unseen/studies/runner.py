"""The runner of a study: worker processes do its cells, each cell exactly once, whatever dies."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from unseen.core.checks import check_count
from unseen.core.config import Record
from unseen.core.console import ProgressBoard, progress_board
from unseen.core.errors import StoreError, UnseenError
from unseen.core.faults import fault
from unseen.core.files import sweep
from unseen.core.locks import exclusive
from unseen.core.text import duration
from unseen.core.worker import RunCell, address_of
from unseen.studies.plan import Cell
from unseen.studies.store import CellState, ClaimLostError, Store, create_store
from unseen.studies.worker_process import Worker, end_all

STORE = "study.sqlite"
BEAT_EVERY = 5.0
LOOK_EVERY = 1.0
ORPHANS_MAY_TAKE = 5.0


@dataclass(frozen=True)
class StudyOutcome:
    """How the cells of a plan ended: what was done now, what before, and what went wrong."""

    store: Path
    finished_now: int
    cells: tuple[CellState, ...]

    def of(self, state: str) -> list[CellState]:
        """The cells in a state."""
        return [cell for cell in self.cells if cell.state == state]

    @property
    def done(self) -> int:
        """How many cells have a result."""
        return len(self.of("done"))

    @property
    def failed(self) -> list[CellState]:
        """The cells that failed, each with its `error`."""
        return self.of("failed")


def seconds_left(
    waiting: Sequence[str],
    running: Sequence[tuple[str, float, float]],
    took: Mapping[str, Sequence[float]],
    workers: int,
) -> float | None:
    """How long the rest of a study will take, or None while nothing is known.

    `waiting` holds the methods of the cells that wait; `running` the method, the seconds so far and the finished part
    (0 to 1) of those that run; `took` the seconds of finished cells by method. A cell is expected to take as long as
    the finished cells of its method, else as its running ones promise, else as the mean of all that is known.
    """
    promised: dict[str, list[float]] = {method: list(seconds) for method, seconds in took.items() if seconds}
    for method, seconds, part in running:
        if method not in took and part > 0:
            promised.setdefault(method, []).append(seconds / part)
    if not promised:
        return None
    means = {method: sum(seconds) / len(seconds) for method, seconds in promised.items()}
    overall = sum(means.values()) / len(means)
    rest = [means.get(method, overall) for method in waiting]
    in_hand = [
        seconds / part - seconds if part > 0 else max(0.0, means.get(method, overall) - seconds)
        for method, seconds, part in running
    ]
    # Never less than the slowest cell in hand: it runs on one worker however many there are.
    return max([(sum(rest) + sum(in_hand)) / workers, *in_hand])


def run_study(
    cells: Sequence[Cell],
    folder: Path,
    run_cell: RunCell,
    *,
    plan: Mapping[str, Any] | None = None,
    workers: int = 2,
    threads: int | None = None,
    max_attempts: int = 3,
    retry_failed: bool = False,
    environment: Mapping[str, str] | None = None,
    before: Callable[[Sequence[Cell]], None] | None = None,
    quiet: bool = False,
) -> StudyOutcome:
    """Run the cells that have no result yet, in worker processes, and give how all of them ended.

    `run_cell(config, folder, tell)` is a module-level function; it works in `folder/cells/<name>`, where a
    later attempt finds what an earlier one left, calls `tell({"done": 3, "total": 10, "words": "..."})` when it likes,
    and gives a mapping that is JSON. An `UnseenError` fails the cell at once; any other error, and the death of the
    worker, `max_attempts` times. Failed cells stay failed unless `retry_failed`. The others run on. `environment` holds
    variables that the workers see beside ours; `before` is called with the cells that are to run, before any starts.

    Results are keyed by configuration: those of an earlier plan in the same folder stay, unreported, and are found
    again when a plan names them. One runner at a time works on a folder; a second one is refused.

    Raises:     StoreError for a store that cannot be used; UnseenError if workers cannot start; KeyboardInterrupt on
                Ctrl-C, after the workers have ended and their cells were given back
    """
    check_count("run_study", "workers", workers)
    check_count("run_study", "max_attempts", max_attempts)
    if threads is not None:
        check_count("run_study", "threads", threads)
    address = address_of(run_cell)
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    with _only_runner(folder):
        sweep(folder)
        create_store(folder / STORE)
        with Store(folder / STORE, max_attempts=max_attempts) as store:
            store.set_plan(cells, plan or {})
            if retry_failed:
                store.retry_failed()
            _wait_for_orphans(store)
            finished_now = 0
            counts = store.counts()
            if counts["waiting"] + counts["running"]:
                workers = min(workers, counts["waiting"] + counts["running"])
                threads = threads or max(1, _cores() // workers)
                if before is not None:
                    before([state.cell for state in store.cells() if state.state in ("waiting", "running")])
                with progress_board(quiet=quiet) as board:
                    start = partial(Worker, *address, threads, environment or {})
                    finished_now = _Run(store, folder, start, workers, board).work()
            return StudyOutcome(store.path, finished_now, tuple(store.cells()))


@contextmanager
def _only_runner(folder: Path) -> Iterator[None]:
    def refuse() -> None:
        raise StoreError(
            f"another process already runs the study in {folder}", hint="Use it when that has ended, or another folder."
        )

    with exclusive(folder / "study.lock", when_busy=refuse):
        yield


def _wait_for_orphans(store: Store) -> None:
    """Give back the cells of a runner that was killed; its workers die with it, but not in the same instant."""
    until = time.monotonic() + ORPHANS_MAY_TAKE
    while store.release_interrupted() and time.monotonic() < until:
        time.sleep(0.05)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Run:
    """One run of the runner: the only process that writes to the store; workers get cells and hand back results."""

    def __init__(
        self, store: Store, folder: Path, start: Callable[[], Worker], workers: int, board: ProgressBoard
    ) -> None:
        self._store = store
        self._folder = folder
        self._start = start
        self._slots: list[Worker | None] = [None] * workers
        self._board = board
        self._false_starts = 0
        self._finished = 0
        self._took: dict[str, list[float]] = {}
        self._open = self._open_cells()
        self._total = len(store.cells())
        self._began = time.monotonic()
        self._looked = self._beaten = self._began - LOOK_EVERY
        self._has_changed = True

    def work(self) -> int:
        """Run till no cell is left; gives how many were finished."""
        try:
            while self._give_out():
                wait([stream for worker in self._workers() for stream in worker.streams], timeout=0.2)
                self._beat()
                self._draw()
                for worker in self._workers():
                    self._take_in(worker)
                self._bury_dead()
            self._draw()
            end_all(self._workers(), politely=True)
        except KeyboardInterrupt:
            self._stop()
            counts = self._store.counts()
            words = f"stopped: {counts['done']} of {self._total} cells are done; the same command continues"
            self._board.say(words)
            raise
        except BaseException:
            with suppress(StoreError):  # the first error is the one to report; the next start gives the cells back
                self._stop()
            raise
        return self._finished

    def _workers(self) -> list[Worker]:
        return [worker for worker in self._slots if worker is not None]

    def _open_cells(self) -> dict[str, Cell]:
        return {state.cell.name: state.cell for state in self._store.cells() if state.state in ("waiting", "running")}

    def _give_out(self) -> bool:
        """Start workers and hand cells to those that are ready; False when nothing is left to wait for."""
        # Something may also change without us: a cell that another process holds and gives back.
        if not self._has_changed and time.monotonic() - self._looked < LOOK_EVERY:
            return True
        self._looked, self._has_changed = time.monotonic(), False
        for worker in self._workers():
            if worker.is_ready and worker.cell is None:
                cell = self._store.claim(worker.owner, watched=[each.owner for each in self._workers()])
                if cell is not None:
                    fault("runner.after_claim")
                    worker.give(cell, self._folder / "cells" / cell.name)
        counts = self._store.counts()
        coming = sum(not worker.is_ready for worker in self._workers())
        free = [slot for slot, worker in enumerate(self._slots) if worker is None]
        for slot in free[: max(0, counts["waiting"] - coming)]:
            self._slots[slot] = self._start()
        return bool(counts["waiting"] + counts["running"])

    def _take_in(self, worker: Worker) -> None:
        for line in worker.read_stderr():
            self._board.say(f"worker {self._slots.index(worker) + 1}: {line}")
        for message in worker.read_messages():
            if "ready" in message:
                worker.is_ready, self._false_starts, self._has_changed = True, 0, True
            elif "progress" in message:
                worker.progress = message["progress"]
            elif worker.cell is not None and message["cell"] == worker.cell.name:
                self._settle(worker, worker.cell, message)

    def _settle(self, worker: Worker, cell: Cell, message: Record) -> None:
        worker.cell, self._has_changed = None, True
        try:
            if "result" in message:
                fault("runner.before_finish")
                self._store.finish(cell.name, worker.owner, message["result"])
                self._finished += 1
                self._took.setdefault(cell.method, []).append(time.monotonic() - worker.began)
                state = "done"
            else:
                state = self._store.fail(cell.name, worker.owner, message["error"], is_final=message["is_final"])
                again = "" if state == "failed" else " (it will be tried again)"
                self._board.say(f"{cell}: {message['error']}{again}")
        except ClaimLostError as problem:
            self._board.say(problem.message)
            return
        if state != "waiting":
            self._open.pop(cell.name, None)

    def _bury_dead(self) -> None:
        for slot, worker in enumerate(self._slots):
            if worker is None or not worker.has_ended():
                continue
            self._take_in(worker)  # a result that it sent before it died counts
            how = worker.reap()
            self._slots[slot], self._has_changed = None, True
            if not worker.is_ready:
                self._false_starts += 1
                if self._false_starts >= self._store.max_attempts:
                    raise UnseenError(f"the workers of the study do not start: {how}")
            elif worker.cell is not None:
                self._board.say(f"{worker.cell}: {how}")
                self._store.abandon(worker.owner, how)
                self._open = self._open_cells()

    def _beat(self) -> None:
        if time.monotonic() - self._beaten < BEAT_EVERY:
            return
        self._beaten = time.monotonic()
        for worker in self._workers():
            if worker.cell is not None:
                self._store.beat(worker.cell.name, worker.owner, worker.progress)

    def _stop(self) -> None:
        end_all(self._workers(), politely=False)
        for worker in self._workers():
            self._store.release(worker.owner)

    def _draw(self) -> None:
        now = time.monotonic()
        running = [(worker.cell, now - worker.began, _part(worker)) for worker in self._workers() if worker.cell]
        names = {cell.name for cell, _, _ in running}
        waiting = [cell.method for cell in self._open.values() if cell.name not in names]
        in_hand = [(cell.method, seconds, part) for cell, seconds, part in running]
        left = seconds_left(waiting, in_hand, self._took, len(self._slots))
        ended = self._total - len(self._open)
        words = f"{ended}/{self._total} cells, {duration(now - self._began)}"
        words += "" if left is None or not self._open else f", about {duration(left)} left"
        self._board.show("study", words, done=ended + sum(part for _, _, part in running), total=self._total)
        for slot, worker in enumerate(self._slots):
            row = f"worker {slot + 1}"
            if worker is None or worker.cell is None:
                self._board.show(row, "starts" if worker is not None and not worker.is_ready else "", done=0, total=1)
            else:
                self._board.show(row, f"{worker.cell} {worker.progress.get('words', '')}", done=_part(worker), total=1)


def _part(worker: Worker) -> float:
    """The part of its cell that a worker says it has done; progress is for the eye, so nonsense is nothing."""
    done, total = worker.progress.get("done", 0), worker.progress.get("total", 0)
    is_sensible = all(isinstance(value, (int, float)) for value in (done, total)) and total > 0
    return min(1.0, max(0.0, done / total)) if is_sensible else 0.0
