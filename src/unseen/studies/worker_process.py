"""Workers as their runner sees them: processes that are handed cells, listened to, and ended."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from unseen.core.config import Record
from unseen.core.processes import identity
from unseen.core.worker import END
from unseen.studies.plan import Cell

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_PATIENCE = 2.0


class Worker:
    """A worker process in a session of its own, with pipes to and from it; our death closes them, and it ends.

    `owner` is the identity under which it claims cells, `cell` the one it works on, `progress` what it last told, and
    `streams` the pipes on which something may come in.
    """

    def __init__(self, module: str, function: str, threads: int, environment: Mapping[str, str]) -> None:
        paths = os.pathsep.join(os.path.abspath(path) for path in sys.path)
        # A session of its own: Ctrl-C reaches the runner alone, and whatever the worker starts can be ended with it.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", "from unseen.core.worker import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | dict.fromkeys(_THREADS, str(threads)) | {"PYTHONPATH": paths} | dict(environment),
            start_new_session=True,
        )
        orders, news, errors = self._process.stdin, self._process.stdout, self._process.stderr
        assert orders is not None and news is not None and errors is not None  # noqa: PT018
        self._pipes = (orders, news, errors)
        self._orders, self._news, self._errors = orders, news.fileno(), errors.fileno()
        self._cut_lines = {self._news: b"", self._errors: b""}
        self.streams = [self._news, self._errors]
        for stream in self.streams:
            os.set_blocking(stream, False)
        self.owner = identity(self._process.pid)
        self.is_ready = False
        self.cell: Cell | None = None
        self.began = time.monotonic()
        self.progress: Record = {}
        self.last_words: deque[str] = deque(maxlen=20)
        self._send({"parent": os.getpid(), "module": module, "function": function, "threads": threads})

    def give(self, cell: Cell, folder: Path) -> None:
        """Hand over a cell."""
        self.cell, self.began, self.progress = cell, time.monotonic(), {}
        self.last_words.clear()
        self._send({"cell": cell.name, "config": cell.config, "folder": str(folder)})

    def dismiss(self) -> None:
        """Ask it to end when it has nothing more to do."""
        self._send(END)

    def read_messages(self) -> list[Record]:
        """The messages that came in since the last time."""
        return [json.loads(line) for line in self._lines(self._news)]

    def read_stderr(self) -> list[str]:
        """The lines that it printed since the last time: warnings and tracebacks."""
        lines = [line.decode("utf-8", "replace").rstrip() for line in self._lines(self._errors)]
        self.last_words.extend(line for line in lines if line)
        return lines

    def has_ended(self) -> bool:
        """Whether the process has ended; it is not waited for yet, so that its number cannot be used again."""
        if not hasattr(os, "waitid"):
            return self._process.poll() is not None
        try:
            return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:  # somebody else in this process waited for it
            return True

    def signal(self, number: int) -> None:
        """Send a signal to the process and to all that it started."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def reap(self) -> str:
        """Kill what is left of it and of what it started; gives how it ended, in words."""
        self.signal(signal.SIGKILL)
        code = self._process.wait()
        for pipe in self._pipes:
            with suppress(OSError):
                pipe.close()
        self.streams = []
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return f"its process ended with {how}" + (f" ({self.last_words[-1]})" if self.last_words else "")

    def _send(self, message: Record) -> None:
        with suppress(BrokenPipeError):  # it is dead; who looks after it will see
            self._orders.write((json.dumps(message) + "\n").encode())
            self._orders.flush()

    def _lines(self, stream: int) -> list[bytes]:
        """The whole lines on a stream; it leaves `streams` when its other end is closed."""
        *lines, self._cut_lines[stream] = (self._cut_lines[stream] + self._read(stream)).split(b"\n")
        return lines

    def _read(self, stream: int) -> bytes:
        parts = []
        while stream in self.streams:
            try:
                parts.append(os.read(stream, 1 << 16))
            except BlockingIOError:
                break
            if not parts[-1]:
                self.streams.remove(stream)
        return b"".join(parts)


def end_all(workers: Sequence[Worker], *, politely: bool) -> None:
    """End workers and all that they started: asked if `politely`, else told, and killed if they do not within 2 s."""
    for worker in workers:
        worker.dismiss() if politely else worker.signal(signal.SIGTERM)
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until and not all(worker.has_ended() for worker in workers):
        time.sleep(0.01)
    for worker in workers:
        worker.reap()
