"""Which process is which, and whether it still lives: a pid alone is not enough, pids are used again. And a pool."""

import ctypes
import hashlib
import multiprocessing
import os
import secrets
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def identity(pid: int | None = None) -> str:
    """A process as `token.pid.start.boot`: no host name, and never equal for two processes.

    `boot` stands for this boot of this machine and its view of pids: outside of it a pid means nothing.
    """
    pid = os.getpid() if pid is None else pid
    return f"{secrets.token_hex(4)}.{pid}.{_start_of(pid) or 0}.{_boot()}"


def is_here(owner: str) -> bool:
    """Whether the process belongs to this boot of this machine, so that `is_alive` can answer for it."""
    return owner.count(".") == 3 and owner.rsplit(".", 1)[1] == _boot()


def is_alive(owner: str) -> bool:
    """Whether the process of that identity runs; one that ended but was not waited for does not."""
    _, pid, start, _ = owner.split(".")
    return _start_of(int(pid)) == int(start)


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends (Linux; elsewhere the caller's own watch must do)."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None, use_errno=True).prctl(set_parent_death_signal, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)  # the parent ended before the kernel was asked


def in_processes(work: Callable[[Item], Result], items: Sequence[Item], workers: int) -> Iterator[tuple[int, Result]]:
    """`work` of every item, each with its place, in the order in which they are done.

    One worker is this process. More are processes of one thread each, which end with this one; what one raises is
    raised here and ends the others.
    """
    if workers == 1 or len(items) < 2:
        for place, item in enumerate(items):
            yield place, work(item)
        return
    context = multiprocessing.get_context("spawn")
    others = multiprocessing.active_children()
    with ProcessPoolExecutor(
        min(workers, len(items)), mp_context=context, initializer=_begin, initargs=(os.getpid(),)
    ) as pool:
        places = {pool.submit(work, item): place for place, item in enumerate(items)}
        try:
            for future in as_completed(places):
                yield places[future], future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            # The pool would wait for what is in hand, which may take minutes.
            for process in multiprocessing.active_children():
                if process not in others:
                    process.kill()
                    process.join()
            raise


def _begin(parent: int) -> None:
    """Begin a process of the pool: the parent alone answers to Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent(parent)
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = "1"
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


def _start_of(pid: int) -> int | None:
    """When a process started, in ticks since boot; 0 where the system does not say; None if there is no process."""
    if not Path("/proc/self/stat").exists():
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return None
        except PermissionError:
            pass
        return 0
    try:
        # The command in the second field may hold spaces and brackets: fields are counted from its end.
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
