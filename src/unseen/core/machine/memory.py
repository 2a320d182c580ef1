"""The allocator's policy: memory that is freed stays with the process."""

import ctypes
from functools import cache

# Options of glibc's mallopt (malloc.h).
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX, _ARENA_MAX = -1, -2, -4, -8
_NEVER, _MEGABYTE = 2**31 - 1, 2**20


@cache
def keep_freed_memory() -> bool:
    """Tell glibc to reuse freed memory instead of returning it to the kernel; returns whether it agreed.

    A network allocates and frees the same large tensors in every batch. glibc maps each of them anew, and the kernel
    clears every page again: on a CPU this takes as long as the computation itself. The price is that a process holds on
    to its peak of memory until it ends. Other C libraries (musl, macOS, Windows) have no such option and are left
    alone.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # not glibc
        return False
    # Threads share one arena: what an arena of their own frees in pieces of 64 MB goes back to the kernel.
    settings = ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, _NEVER), (_TOP_PAD, 64 * _MEGABYTE), (_ARENA_MAX, 1))
    return all([mallopt(option, value) == 1 for option, value in settings])
