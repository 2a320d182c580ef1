"""The runner of a study: an executor runs its cells, each cell exactly once, whatever dies."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from unseen.core.checks import check_count
from unseen.core.config import Record
from unseen.core.console import ProgressBoard, progress_board
from unseen.core.errors import StoreError, UnseenError
from unseen.core.faults import fault
from unseen.core.files import sweep
from unseen.core.folders import exclusive
from unseen.core.text import duration
from unseen.core.worker import CellJob
from unseen.studies.executors.base import Ended, Executor, Failed, Finished, Message, Printed, Progressed, Ready
from unseen.studies.plan import Cell
from unseen.studies.store import CellState, ClaimLostError, Store, create_store

STORE = "study.sqlite"
SECONDS_BETWEEN_HEARTBEATS = 5.0
SECONDS_BETWEEN_CLAIMS = 1.0
SECONDS_FOR_ORPHANS = 5.0


@dataclass(frozen=True)
class StudyOutcome:
    """How the cells of a plan ended, and how many of them were finished by this call."""

    store: Path
    finished_now: int
    cells: tuple[CellState, ...]

    @property
    def done(self) -> int:
        """How many cells have a result."""
        return sum(cell.state == "done" for cell in self.cells)

    @property
    def failed(self) -> list[CellState]:
        """The cells that failed, each with its `error`."""
        return [cell for cell in self.cells if cell.state == "failed"]


@dataclass(frozen=True, kw_only=True)
class RunnerSettings:
    """How a study is run.

    A cell counts as failed after `max_attempts` unexpected errors and deaths of its worker; `retry_failed` runs cells
    that failed before once more. `cache` is the folder of caches that all cells share, by default the user's. `before`
    is called with the cells that are to run before any starts, to fill caches for example.
    """

    max_attempts: int = 3
    retry_failed: bool = False
    cache: Path | None = None
    before: Callable[[Sequence[Cell]], None] | None = None
    quiet: bool = False

    def __post_init__(self) -> None:
        check_count("RunnerSettings", "max_attempts", self.max_attempts)


def run_study(
    cells: Sequence[Cell],
    folder: Path,
    executor: Executor,
    *,
    plan: Mapping[str, object] | None = None,
    settings: RunnerSettings | None = None,
) -> StudyOutcome:
    """Run the cells that have no result yet, and return how all of them ended.

    A cell works in `folder/cells/<name>`, where a later attempt finds what an earlier one left. An `UnseenError` fails
    the cell at once; any other error, and the death of its worker, after `max_attempts` times. The others run on.

    Results go to the store `folder/study.sqlite`, keyed by configuration: those of an earlier plan in the same folder
    stay, unreported, and are found again when a plan names them. A second runner on the same folder is refused.

    Raises:     StoreError for a store that cannot be used; UnseenError if workers cannot start; KeyboardInterrupt on
                Ctrl-C, after the workers have ended and their cells were given back
    """
    settings = settings or RunnerSettings()
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)

    def refuse() -> None:
        problem = f"another process already runs the study in {folder}"
        raise StoreError(problem, hint="Wait until it has ended, or use another folder.")

    with exclusive(folder / "study.lock", when_busy=refuse):
        sweep(folder)
        create_store(folder / STORE)
        with Store(folder / STORE, max_attempts=settings.max_attempts) as store:
            store.set_plan(cells, plan or {})
            if settings.retry_failed:
                store.retry_failed()
            _wait_for_orphans(store)
            finished_now = 0
            unfinished = _unfinished_cells(store)
            if unfinished:
                if settings.before is not None:
                    settings.before(list(unfinished.values()))
                with progress_board(quiet=settings.quiet) as board:
                    finished_now = _Run(store, folder, executor, board, settings.cache).work()
            return StudyOutcome(store.path, finished_now, tuple(store.cells()))


def _wait_for_orphans(store: Store) -> None:
    """Give back the cells of a runner that was killed; its workers die with it, but not in the same instant."""
    deadline = time.monotonic() + SECONDS_FOR_ORPHANS
    while store.release_interrupted() and time.monotonic() < deadline:
        time.sleep(0.05)


def _unfinished_cells(store: Store) -> dict[str, Cell]:
    return {state.cell.name: state.cell for state in store.cells() if state.state in ("waiting", "running")}


@dataclass
class _Worker:
    """What the runner knows of a worker: its slot, which is a row of the display, and what it does."""

    slot: int
    is_ready: bool = False
    is_ending: bool = False
    cell: Cell | None = None
    started: float = field(default_factory=time.monotonic)
    progress: Record = field(default_factory=dict)

    @property
    def fraction(self) -> float:
        """The fraction of its cell that is done; progress is only shown, so nonsense counts as none."""
        done, total = self.progress.get("done", 0), self.progress.get("total", 0)
        is_sensible = all(isinstance(value, (int, float)) for value in (done, total)) and total > 0
        return min(1.0, max(0.0, done / total)) if is_sensible else 0.0


class _Run:
    """One run of the runner: the only process that writes to the store; workers get cells and send back results."""

    def __init__(
        self, store: Store, folder: Path, executor: Executor, board: ProgressBoard, cache: Path | None
    ) -> None:
        self._store = store
        self._folder = folder
        self._executor = executor
        self._board = board
        self._cache = None if cache is None else cache.absolute()
        self._unfinished = _unfinished_cells(store)
        self._slots = range(min(executor.workers, len(self._unfinished)))
        self._workers: dict[str, _Worker] = {}  # by the identity under which a worker claims cells
        self._failed_starts = 0
        self._finished = 0
        self._seconds: dict[str, list[float]] = {}
        self._total = len(store.cells())
        self._started = time.monotonic()
        self._last_claim = self._last_heartbeat = self._started - SECONDS_BETWEEN_CLAIMS
        self._has_changed = True

    def work(self) -> int:
        """Run until no cell is left; returns how many were finished."""
        try:
            while self._assign_cells():
                messages = self._executor.receive(timeout=0.2)
                self._beat()
                self._draw()
                for message in messages:
                    self._handle(message)
            self._draw()
            self._executor.stop(gracefully=True)
        except KeyboardInterrupt:
            self._stop()
            done = self._store.counts()["done"]
            self._board.say(f"stopped: {done} of {self._total} cells are done; the same command continues")
            raise
        except BaseException:
            with suppress(StoreError):  # the first error is the one to report; the next start gives the cells back
                self._stop()
            raise
        return self._finished

    def _assign_cells(self) -> bool:
        """Start workers and send cells to those that are ready; False when nothing is left to wait for."""
        # The store may also change from outside: another process gives a cell back.
        if not self._has_changed and time.monotonic() - self._last_claim < SECONDS_BETWEEN_CLAIMS:
            return True
        self._last_claim, self._has_changed = time.monotonic(), False
        for owner, worker in self._workers.items():
            if worker.is_ready and not worker.is_ending and worker.cell is None:
                cell = self._store.claim(owner, watched=self._workers)
                if cell is not None:
                    fault("runner.after_claim")
                    worker.cell, worker.started, worker.progress = cell, time.monotonic(), {}
                    job = CellJob(cell.name, cell.config, self._folder / "cells" / cell.name, self._cache)
                    self._executor.send(owner, job)
        counts = self._store.counts()
        starting = sum(not worker.is_ready for worker in self._workers.values())
        free = sorted(set(self._slots) - {worker.slot for worker in self._workers.values()})
        for slot in free[: max(0, counts["waiting"] - starting)]:
            self._workers[self._executor.start(of=len(self._slots))] = _Worker(slot)
        return bool(counts["waiting"] + counts["running"])

    def _handle(self, message: Message) -> None:
        worker = self._workers[message.worker]
        match message:
            case Printed(line=line):
                self._board.say(f"worker {worker.slot + 1}: {line}")
            case Ready():
                worker.is_ready, self._failed_starts, self._has_changed = True, 0, True
            case Progressed(done=done, total=total, message=words):
                worker.progress = {"done": done, "total": total, "message": words}
            case Finished(cell=name) | Failed(cell=name) if worker.cell is not None and worker.cell.name == name:
                cell, worker.cell, self._has_changed = worker.cell, None, True
                worker.is_ending = isinstance(message, Failed) and not message.is_final
                self._record(cell, message, time.monotonic() - worker.started)
            case Ended(reason=reason):
                del self._workers[message.worker]
                self._has_changed = True
                self._record_end(message.worker, worker, reason)

    def _record(self, cell: Cell, message: Finished | Failed, seconds: float) -> None:
        """Write a result or an error to the store."""
        try:
            if isinstance(message, Finished):
                fault("runner.before_finish")
                self._store.finish(cell.name, message.worker, message.result)
                self._finished += 1
                self._seconds.setdefault(cell.method, []).append(seconds)
                state = "done"
            else:
                state = self._store.fail(cell.name, message.worker, message.error, is_final=message.is_final)
                again = "" if state == "failed" else " (it will be tried again)"
                self._board.say(f"{cell}: {message.error}{again}")
        except ClaimLostError as problem:
            self._board.say(problem.message)
            return
        if state != "waiting":
            self._unfinished.pop(cell.name, None)

    def _record_end(self, owner: str, worker: _Worker, reason: str) -> None:
        if not worker.is_ready:
            self._failed_starts += 1
            if self._failed_starts >= self._store.max_attempts:
                raise UnseenError(f"the workers of the study do not start: {reason}")
        elif worker.cell is not None:
            self._board.say(f"{worker.cell}: {reason}")
            self._store.abandon(owner, reason)
            self._unfinished = _unfinished_cells(self._store)

    def _beat(self) -> None:
        if time.monotonic() - self._last_heartbeat < SECONDS_BETWEEN_HEARTBEATS:
            return
        self._last_heartbeat = time.monotonic()
        for owner, worker in self._workers.items():
            if worker.cell is not None:
                self._store.beat(worker.cell.name, owner, worker.progress)

    def _stop(self) -> None:
        self._executor.stop(gracefully=False)
        for owner in self._workers:
            self._store.release(owner)

    def _draw(self) -> None:
        now = time.monotonic()
        by_slot = {worker.slot: worker for worker in self._workers.values()}
        busy = [(worker, worker.cell) for worker in by_slot.values() if worker.cell is not None]
        running = {cell.name: (cell.method, now - worker.started, worker.fraction) for worker, cell in busy}
        waiting = [cell.method for name, cell in self._unfinished.items() if name not in running]
        left = seconds_left(waiting, list(running.values()), self._seconds, len(self._slots))
        ended = self._total - len(self._unfinished)
        words = f"{ended}/{self._total} cells, {duration(now - self._started)}"
        words += "" if left is None or not self._unfinished else f", about {duration(left)} left"
        done = ended + sum(fraction for _, _, fraction in running.values())
        self._board.show("study", words, done=done, total=self._total)
        for slot in self._slots:
            worker, words, done = by_slot.get(slot), "", 0.0
            if worker is not None and worker.cell is not None:
                words, done = f"{worker.cell} {worker.progress.get('message', '')}", worker.fraction
            elif worker is not None and not worker.is_ready:
                words = "starts"
            self._board.show(f"worker {slot + 1}", words, done=done, total=1)


def seconds_left(
    waiting: Sequence[str],
    running: Sequence[tuple[str, float, float]],
    seconds_by_method: Mapping[str, Sequence[float]],
    workers: int,
) -> float | None:
    """How long the rest of a study will take, or None while nothing is known.

    `waiting` holds the methods of the cells that wait; `running` the method, the seconds so far and the finished
    fraction of those that run; `seconds_by_method` what finished cells took. A cell is expected to take as long as the
    finished cells of its method, else as its running ones predict, else as the mean of all that is known.
    """
    known = {method: list(seconds) for method, seconds in seconds_by_method.items() if seconds}
    for method, seconds, fraction in running:
        if method not in seconds_by_method and fraction > 0:
            known.setdefault(method, []).append(seconds / fraction)
    if not known:
        return None
    means = {method: sum(seconds) / len(seconds) for method, seconds in known.items()}
    overall = sum(means.values()) / len(means)
    rest = [means.get(method, overall) for method in waiting]
    of_running = [
        seconds / fraction - seconds if fraction > 0 else max(0.0, means.get(method, overall) - seconds)
        for method, seconds, fraction in running
    ]
    # Never less than the slowest running cell: it runs on one worker however many there are.
    return max([(sum(rest) + sum(of_running)) / workers, *of_running])
