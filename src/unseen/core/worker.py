"""The process that runs the cells of a study, one after another, and sends back their results.

It exchanges JSON lines with the executor that started it (`unseen.studies.executors.local`): jobs arrive on standard
input, messages (of a `kind` in `unseen.studies.executors.base`) leave on what was standard output. It ends with its
parent, however that ends. It lives in `core` to start quickly: importing it imports nothing heavy.
"""

import importlib
import json
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, TextIO

from unseen.core.config import Record, canonical_json
from unseen.core.errors import ConfigError, UnseenError
from unseen.core.processes import die_with_parent
from unseen.core.progress import Progress

SECONDS_BETWEEN_PROGRESS = 0.2
END: Record = {"end": True}


class CellJob(NamedTuple):
    """A cell to run: its name and configuration, the folder to work in, and the folder of caches (None: the user's)."""

    cell: str
    config: Record
    folder: Path
    cache: Path | None = None

    def to_message(self) -> Record:
        """The job as JSON values."""
        return self._asdict() | {"folder": str(self.folder), "cache": None if self.cache is None else str(self.cache)}

    @classmethod
    def from_message(cls, message: Record) -> "CellJob":
        """The job that `to_message` wrote."""
        cache = None if message["cache"] is None else Path(message["cache"])
        return cls(message["cell"], message["config"], Path(message["folder"]), cache)


RunCell = Callable[[CellJob, Progress], Record]


def import_path(function: RunCell) -> tuple[str, str]:
    """Module and name by which another process can import the function.

    Raises:     ConfigError for a function that lives inside another or in the script that was started
    """
    module, name = function.__module__, function.__qualname__
    if module == "__main__" or "." in name or getattr(sys.modules.get(module), name, None) is not function:
        raise ConfigError(
            "a study runs its cells in other processes, which cannot import this function",
            got=f"{module}.{name}",
            hint="Define it at the top level of a module.",
        )
    return module, name


class MessageWriter:
    """Writes one JSON line per message, never interleaved between threads."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._last_progress = 0.0

    def send(self, message: Record) -> None:
        """Send a message."""
        with self._lock:
            self._stream.write(json.dumps(message) + "\n")
            self._stream.flush()

    def progress(self, done: int, total: int, message: str) -> None:
        """Send progress, at most five times per second."""
        now = time.monotonic()
        if now - self._last_progress >= SECONDS_BETWEEN_PROGRESS:
            self._last_progress = now
            self.send({"kind": "Progressed", "done": done, "total": total, "message": message})


def run_job(run_cell: RunCell, job: CellJob, messages: MessageWriter) -> bool:
    """Run a cell and send its result or error; False if the process should run no other cell.

    An `UnseenError` is final: the user must act. After any other error memory or a device may be in disorder.
    """
    try:
        job.folder.mkdir(parents=True, exist_ok=True)
        result = run_cell(job, messages.progress)
        if not isinstance(result, Mapping):
            raise ConfigError("a cell must return a mapping", got=type(result).__name__)
        try:
            canonical_json(dict(result)).encode()
        except (TypeError, ValueError) as problem:
            raise ConfigError(f"a cell must return JSON without NaN or infinity ({problem})") from problem
    except UnseenError as problem:
        messages.send({"kind": "Failed", "cell": job.cell, "error": problem.message, "is_final": True})
        return True
    except Exception as problem:
        traceback.print_exc()
        error = f"{type(problem).__name__}: {problem}"
        messages.send({"kind": "Failed", "cell": job.cell, "error": error, "is_final": False})
        return False
    messages.send({"kind": "Finished", "cell": job.cell, "result": dict(result)})
    return True


def _read_jobs(stream: TextIO, jobs: "queue.Queue[Record]") -> None:
    """Queue the jobs that arrive. If the stream breaks off, the parent is dead, and this process ends with it."""
    for line in stream:
        job = json.loads(line)
        jobs.put(job)
        if job == END:
            return
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def main() -> None:
    """Run jobs until told to end."""
    # Cells and libraries may print and read: the pipes to the parent move away from file descriptors 0 and 1.
    orders = os.fdopen(os.dup(0), "r", encoding="utf-8")
    messages = MessageWriter(os.fdopen(os.dup(1), "w", encoding="utf-8"))
    with open(os.devnull, encoding="utf-8") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    start = json.loads(orders.readline())
    die_with_parent(start["parent"])
    jobs: queue.Queue[Record] = queue.Queue()
    threading.Thread(target=_read_jobs, args=(orders, jobs), daemon=True).start()
    run_cell: RunCell = getattr(importlib.import_module(start["module"]), start["function"])
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(start["threads"])
    messages.send({"kind": "Ready"})
    while (job := jobs.get()) != END:
        if not run_job(run_cell, CellJob.from_message(job), messages):
            break
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # the reading thread is still blocked: a normal interpreter shutdown would wait for it


if __name__ == "__main__":
    main()
