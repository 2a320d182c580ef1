"""Identities of processes, which stay unique when a pid is used again, and work in a pool of processes."""

import ctypes
import hashlib
import multiprocessing
import os
import secrets
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def identity(pid: int | None = None) -> str:
    """A process as `token.pid.start.boot`: unique, and without the host name.

    `boot` stands for this boot of this machine and its pid namespace: elsewhere a pid means nothing.
    """
    pid = os.getpid() if pid is None else pid
    return f"{secrets.token_hex(4)}.{pid}.{_start_time(pid) or 0}.{_boot()}"


def is_here(owner: str) -> bool:
    """Whether the process belongs to this boot of this machine, so that `is_alive` knows about it."""
    return owner.count(".") == 3 and owner.rsplit(".", 1)[1] == _boot()


def is_alive(owner: str) -> bool:
    """Whether the process with that identity runs; a zombie does not."""
    _, pid, start, _ = owner.split(".")
    return _start_time(int(pid)) == int(start)


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends (only Linux; elsewhere the caller must watch itself)."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None, use_errno=True).prctl(set_parent_death_signal, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)  # the parent ended before the kernel was asked


def in_processes(work: Callable[[Item], Result], items: Sequence[Item], workers: int) -> Iterator[tuple[int, Result]]:
    """Yield the index and the result of `work` for every item, in the order in which they are done.

    A single worker is this process itself. More are processes of one thread each, which end with this one; an error in
    one of them is raised here and ends the others.
    """
    if workers == 1 or len(items) < 2:
        yield from enumerate(map(work, items))
        return
    context = multiprocessing.get_context("spawn")
    others = multiprocessing.active_children()
    initialise = partial(_initialise, os.getpid())
    with ProcessPoolExecutor(min(workers, len(items)), mp_context=context, initializer=initialise) as pool:
        indices = {pool.submit(work, item): index for index, item in enumerate(items)}
        try:
            for future in as_completed(indices):
                yield indices[future], future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            # The pool would wait for the running items, which may take minutes.
            for process in multiprocessing.active_children():
                if process not in others:
                    process.kill()
                    process.join()
            raise


def _initialise(parent: int) -> None:
    """Initialise a process of the pool: only the parent handles Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent(parent)
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


def _start_time(pid: int) -> int | None:
    """When a process started, in ticks since boot; 0 where the system does not say; None if it does not run."""
    if not Path("/proc/self/stat").exists():
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return None
        except PermissionError:
            pass
        return 0
    try:
        # The command in the second field may contain spaces and brackets: fields are counted from its end.
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if stat[0] in "ZX" else int(stat[19])


def _boot() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return hashlib.sha256(f"{boot}{os.readlink('/proc/self/ns/pid')}".encode()).hexdigest()[:12]
    except OSError:
        return "unknown"
