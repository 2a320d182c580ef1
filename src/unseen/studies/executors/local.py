"""Worker processes on this machine: started, sent cells over pipes, listened to, and ended."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import wait

from unseen.core.checks import check_count
from unseen.core.config import Record
from unseen.core.processes import THREAD_VARIABLES, identity
from unseen.core.worker import END, CellJob, RunCell, import_path
from unseen.studies.executors.base import Ended, Failed, Finished, Message, Printed, Progressed, Ready

_SECONDS_TO_END = 2.0
_KINDS: dict[str, Callable[..., Message]] = {kind.__name__: kind for kind in (Ready, Progressed, Finished, Failed)}


class LocalExecutor:
    """Runs cells in processes of this machine.

    `run_cell(job, progress)` is a module-level function; it returns a mapping that is JSON. `threads` is the number of
    threads per worker; by default the workers share the processors.

    Raises:     ConfigError for a function that other processes cannot import
    """

    def __init__(self, run_cell: RunCell, *, workers: int = 2, threads: int | None = None) -> None:
        check_count("LocalExecutor", "workers", workers)
        if threads is not None:
            check_count("LocalExecutor", "threads", threads)
        self.workers = workers
        self._threads = threads
        self._module, self._function = import_path(run_cell)
        self._processes: dict[str, WorkerProcess] = {}

    def start(self, of: int) -> str:
        """Start a process."""
        processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        process = WorkerProcess(self._module, self._function, self._threads or max(1, processors // of))
        self._processes[process.owner] = process
        return process.owner

    def send(self, worker: str, job: CellJob) -> None:
        """Send a cell."""
        self._processes[worker].send(job.to_message())

    def receive(self, timeout: float) -> list[Message]:
        """All that the processes wrote, and which of them ended."""
        wait([stream for process in self._processes.values() for stream in process.streams], timeout=timeout)
        messages: list[Message] = []
        for owner, process in list(self._processes.items()):
            messages += process.read()
            if process.has_ended():
                messages += process.read()  # a result that it sent before it died counts
                del self._processes[owner]
                messages.append(Ended(owner, process.reap()))
        return messages

    def stop(self, *, gracefully: bool) -> None:
        """End the processes and whatever they started, and kill them if that takes more than 2 s."""
        processes = list(self._processes.values())
        for process in processes:
            process.send(END) if gracefully else process.signal(signal.SIGTERM)
        deadline = time.monotonic() + _SECONDS_TO_END
        while time.monotonic() < deadline and not all(process.has_ended() for process in processes):
            time.sleep(0.01)
        for process in processes:
            process.reap()
        self._processes = {}


class WorkerProcess:
    """A worker process in a session of its own, with pipes to and from it; our death closes them, and it ends.

    `owner` is its identity, and `streams` are the pipes on which something may arrive.
    """

    def __init__(self, module: str, function: str, threads: int) -> None:
        paths = os.pathsep.join(os.path.abspath(path) for path in sys.path)
        # A session of its own: Ctrl-C reaches the runner alone, and whatever the worker starts can be ended with it.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", "from unseen.core.worker import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | dict.fromkeys(THREAD_VARIABLES, str(threads)) | {"PYTHONPATH": paths},
            start_new_session=True,
        )
        stdin, stdout, stderr = self._process.stdin, self._process.stdout, self._process.stderr
        assert stdin is not None and stdout is not None and stderr is not None  # noqa: PT018
        self._stdin, self._pipes = stdin, (stdin, stdout, stderr)
        self.streams = [stdout.fileno(), stderr.fileno()]
        self._stdout, self._stderr = self.streams
        self._partial_lines = dict.fromkeys(self.streams, b"")
        for stream in self.streams:
            os.set_blocking(stream, False)
        self.owner = identity(self._process.pid)
        self._last_line = ""
        self.send({"parent": os.getpid(), "module": module, "function": function, "threads": threads})

    def send(self, message: Record) -> None:
        """Send a message; to a process that is dead nothing happens, `has_ended` will tell."""
        if "cell" in message:
            self._last_line = ""
        with suppress(BrokenPipeError):
            self._stdin.write((json.dumps(message) + "\n").encode())
            self._stdin.flush()

    def read(self) -> list[Message]:
        """What it printed since the last call, warnings and tracebacks; then what it sent."""
        printed = [line.decode("utf-8", "replace").rstrip() for line in self._lines(self._stderr)]
        self._last_line = next((line for line in reversed(printed) if line), self._last_line)
        sent = [json.loads(line) for line in self._lines(self._stdout)]
        messages = [_KINDS[message.pop("kind")](self.owner, **message) for message in sent]
        return [*(Printed(self.owner, line) for line in printed), *messages]

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
        """Kill what is left of it and of what it started; returns how it ended, in words."""
        self.signal(signal.SIGKILL)
        code = self._process.wait()
        for pipe in self._pipes:
            with suppress(OSError):
                pipe.close()
        self.streams = []
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return f"its process ended with {how}" + (f" ({self._last_line})" if self._last_line else "")

    def _lines(self, stream: int) -> list[bytes]:
        """The complete lines on a stream; it leaves `streams` when its other end is closed."""
        parts = [self._partial_lines[stream]]
        while stream in self.streams:
            try:
                parts.append(os.read(stream, 1 << 16))
            except BlockingIOError:
                break
            if not parts[-1]:
                self.streams.remove(stream)
        *lines, self._partial_lines[stream] = b"".join(parts).split(b"\n")
        return lines
