"""Which process is which, and whether it still lives: a pid alone is not enough, pids are used again."""

import ctypes
import hashlib
import os
import secrets
import signal
import sys
from pathlib import Path


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
