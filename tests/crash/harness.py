"""Processes that die: by SIGKILL at a moment drawn from the test's seed, or exactly at a named point.

Children are forked after the imports, so a child costs next to nothing. A child acknowledges what it has finished over
a pipe, and what was acknowledged before the kill is what it may be held to.
"""

import hashlib
import json
import os
import random
import resource
import secrets
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

Acknowledge = Callable[[Any], None]
Child = Callable[[Acknowledge], object]


def fresh_seed() -> int:
    """A seed, printed so that a failure can be run again with UNSEEN_SEED=<seed>."""
    seed = int(os.environ.get("UNSEEN_SEED") or secrets.randbits(32))
    print(f"seed {seed} (again with UNSEEN_SEED={seed})")
    return seed


def fresh_draws() -> random.Random:
    """Random draws from a fresh, printed seed."""
    return random.Random(fresh_seed())


class Forked:
    """A forked child and the pipe on which it acknowledges."""

    def __init__(self, child: Child, environment: dict[str, str] | None = None) -> None:
        self.acknowledged: list[Any] = []
        self._cut = b""
        self.pipe, write_end = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # fork beside threads: the child uses none of them
            self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                os.close(self.pipe)
                os.environ.update(environment or {})
                child(lambda value: _write(write_end, {"acknowledged": value}))
                code = 0
            except BaseException:
                _write(write_end, {"error": traceback.format_exc()})
            finally:
                os._exit(code)
        os.close(write_end)
        self.is_open = True

    def listen(self) -> None:
        """Read what is there; an error in the child is an error of the test."""
        part = os.read(self.pipe, 1 << 16)
        self.is_open = bool(part)
        *lines, self._cut = (self._cut + part).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "error" in message:
                raise AssertionError(f"a child raised:\n{message['error']}")
            self.acknowledged.append(message["acknowledged"])

    def kill(self) -> None:
        """Kill it and read the rest of what it acknowledged."""
        os.kill(self.pid, signal.SIGKILL)  # not waited for yet, so the number is still its own
        self.end()

    def end(self) -> int:
        """Wait for its end; gives the exit code, negative for a signal."""
        try:
            while self.is_open:
                self.listen()
        finally:
            os.close(self.pipe)
            code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return code


def _write(pipe: int, message: Any) -> None:
    os.write(pipe, (json.dumps(message) + "\n").encode())


def killed_together(
    children: Sequence[Child], when: float, meanwhile: Callable[[], None] | None = None
) -> list[list[Any]]:
    """Run children at once and kill them all `when` seconds later; gives what each acknowledged.

    `meanwhile` is called again and again until then. A child that finishes earlier is not killed.
    """
    forked = [Forked(child) for child in children]
    until = time.monotonic() + when
    try:
        while (left := until - time.monotonic()) > 0 and any(child.is_open for child in forked):
            ready = wait([child.pipe for child in forked if child.is_open], timeout=0 if meanwhile else left)
            for child in forked:
                if child.pipe in ready:
                    child.listen()
            if meanwhile:
                meanwhile()
    finally:
        for child in forked:
            os.kill(child.pid, signal.SIGKILL)
        for child in forked:
            child.end()
    return [child.acknowledged for child in forked]


def killed(child: Child, when: float) -> list[Any]:
    """Run a child, kill it `when` seconds later, and give what it acknowledged."""
    return killed_together([child], when)[0]


def dies_at(point: str, child: Child) -> list[Any]:
    """Run a child that must die at a named point of `core.faults`; gives what it acknowledged before."""
    forked = Forked(child, {"UNSEEN_FAULT": point})
    code = forked.end()
    assert code == -signal.SIGKILL, f"the child did not reach the point {point}: it ended with {code}"
    return forked.acknowledged


def limited(
    child: Child, *, memory: int | None = None, seconds: int | None = None, file_size: int | None = None
) -> int:
    """Run a child with at most so many bytes of memory, seconds of processor time, bytes in a file; its exit code."""

    def bounded(acknowledge: Acknowledge) -> None:
        for kind, bound in (
            (resource.RLIMIT_AS, memory),
            (resource.RLIMIT_CPU, seconds),
            (resource.RLIMIT_FSIZE, file_size),
        ):
            if bound is not None:
                resource.setrlimit(kind, (bound, bound))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write beyond the bound then fails like one on a full disk
        child(acknowledge)

    return Forked(bounded).end()


def sha256_tree(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file below a folder, by relative path."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def same_bits(first: dict[str, Any], second: dict[str, Any]) -> None:
    """Assert that two dictionaries of tensors are equal bit by bit; says which tensor differs and where first."""
    import torch

    assert first.keys() == second.keys(), f"names differ: {first.keys() ^ second.keys()}"
    for name, tensor in first.items():
        other = second[name]
        assert tensor.dtype == other.dtype, f"{name}: {tensor.dtype} and {other.dtype}"
        assert tensor.shape == other.shape, f"{name}: {tensor.shape} and {other.shape}"
        bytes_of = [part.detach().cpu().contiguous().view(-1).view(torch.uint8) for part in (tensor, other)]
        different = (bytes_of[0] != bytes_of[1]).nonzero()
        if len(different):
            element = int(different[0]) // tensor.element_size()
            values = [part.flatten()[element].item() for part in (tensor, other)]
            raise AssertionError(f"{name}: element {element} of {tensor.numel()} is {values[0]!r} and {values[1]!r}")
