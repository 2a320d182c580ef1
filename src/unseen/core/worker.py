"""A worker: a process that is handed one cell of a study after another and hands back their results.

It speaks JSON lines with its runner: cells come in on standard input, news go out on what was standard output. It knows
nothing of the store. It ends with its runner, whichever way that ends. It imports nothing heavy before the function
that runs a cell does, hence its place in `core`; and it is kept from cell to cell.
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
from typing import Any, TextIO

from unseen.core.config import Record, canonical_json
from unseen.core.errors import ConfigError, UnseenError
from unseen.core.processes import die_with_parent

RunCell = Callable[[Record, Path, Callable[[Record], None]], Record]

PAUSE_BETWEEN_NEWS = 0.2
END: Record = {"end": True}


def address_of(function: RunCell) -> tuple[str, str]:
    """Module and name by which another process can import the function.

    Raises:     ConfigError for a function that lives inside another or in the script that was started
    """
    module, name = function.__module__, function.__qualname__
    if module == "__main__" or "." in name or getattr(sys.modules.get(module), name, None) is not function:
        raise ConfigError(
            "a study runs its cells in other processes, which cannot import this function",
            got=f"{module}.{name}",
            hint="Use a function at the top of a module.",
        )
    return module, name


class News:
    """The way out: one JSON line a message, whole even if several threads speak."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._told = 0.0

    def say(self, message: Mapping[str, Any]) -> None:
        """Send a message."""
        with self._lock:
            self._stream.write(json.dumps(message) + "\n")
            self._stream.flush()

    def tell(self, progress: Mapping[str, Any]) -> None:
        """Send progress, unless some was sent just now: nobody reads faster than the eye."""
        now = time.monotonic()
        if now - self._told >= PAUSE_BETWEEN_NEWS:
            self._told = now
            self.say({"progress": dict(progress)})


def run_one(run_cell: RunCell, name: str, config: Record, folder: Path, news: News) -> bool:
    """Run a cell and report its result or error; False if the process should not be trusted with another cell.

    An `UnseenError` is the user's to mend and final. After any other error memory or a device may be in disorder.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        result = run_cell(config, folder, news.tell)
        if not isinstance(result, Mapping):
            raise ConfigError("a cell must give a mapping", got=type(result).__name__)
        try:
            canonical_json(dict(result)).encode()
        except (TypeError, ValueError) as problem:
            raise ConfigError(f"a cell must give JSON without NaN or infinity ({problem})") from problem
    except UnseenError as problem:
        news.say({"cell": name, "error": problem.message, "is_final": True})
        return True
    except Exception as problem:
        traceback.print_exc()
        news.say({"cell": name, "error": f"{type(problem).__name__}: {problem}", "is_final": False})
        return False
    news.say({"cell": name, "result": dict(result)})
    return True


def _listen(stream: TextIO, jobs: "queue.Queue[Record]") -> None:
    """Pass jobs on; when the stream ends without a word the runner is dead, and so must be all that it started."""
    for line in stream:
        job = json.loads(line)
        jobs.put(job)
        if job == END:
            return
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def main() -> None:
    """Work until told to end."""
    # What a cell or a library prints is not news, and what it reads is not ours: the pipes move away from 0 and 1.
    orders = os.fdopen(os.dup(0), "r", encoding="utf-8")
    news = News(os.fdopen(os.dup(1), "w", encoding="utf-8"))
    with open(os.devnull, encoding="utf-8") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    start = json.loads(orders.readline())
    die_with_parent(start["parent"])
    jobs: queue.Queue[Record] = queue.Queue()
    threading.Thread(target=_listen, args=(orders, jobs), daemon=True).start()
    run_cell: RunCell = getattr(importlib.import_module(start["module"]), start["function"])
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(start["threads"])
    news.say({"ready": True})
    while (job := jobs.get()) != END:
        if not run_one(run_cell, job["cell"], job["config"], Path(job["folder"]), news):
            break
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # a thread still listens: an orderly end of the interpreter would trip over it


if __name__ == "__main__":
    main()
