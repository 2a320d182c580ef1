"""A process that has imported nothing of ours, but torch: importing it takes longer than what most tests do with it."""

import multiprocessing
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

_IMPORTED = ["numpy", "torch", "sklearn.metrics", "numba"]


class Ended(NamedTuple):
    """How a process ended."""

    returncode: int
    stdout: str
    stderr: str


def run_code(code: str, *arguments: object, cwd: Path, path: tuple[str, ...] = (), timeout: float = 300) -> Ended:
    """Run code as `python -c` does; `path` comes before everything else that is imported from.

    The process is a fork of one that has imported some heavy libraries and nothing else.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_IMPORTED)
    with TemporaryDirectory() as folder:
        words, streams = ["-c", *map(str, arguments)], [Path(folder, name) for name in ("out", "err")]
        process = context.Process(target=_run, args=(code, words, cwd, path, dict(os.environ), streams))
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            process.join()
        out, err = (stream.read_text() for stream in streams)
        return Ended(process.exitcode or 0, out, err)


def _run(
    code: str, words: list[str], cwd: Path, path: tuple[str, ...], environment: dict[str, str], streams: list[Path]
) -> None:
    for number, stream in enumerate(streams, start=1):
        os.dup2(os.open(stream, os.O_WRONLY | os.O_CREAT), number)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv, sys.path[:0] = words, path
    assert "unseen" not in sys.modules
    exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102
