"""A thread pool of our own for loops and products that release the GIL, in place of torch's threads."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import torch
from threadpoolctl import ThreadpoolController

Run: TypeAlias = Callable[[Callable[[int, int], None], int], None]
"""Calls ``function(start, stop)`` on parts that together cover ``range(count)``."""


@cache
def _libraries() -> ThreadpoolController:
    # Looking for the loaded libraries takes longer than a small evaluation; NumPy's are loaded by now.
    return ThreadpoolController()


@contextmanager
def thread_pool() -> Iterator[tuple[ThreadPoolExecutor, int]]:
    """A pool with as many threads as torch has, and their number; torch and NumPy use one thread each meanwhile.

    Their own threads would spin while they wait for the next product, on the cores that the pool needs.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with (
            _libraries().limit(limits=1, user_api="blas"),
            ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool,
        ):
            yield pool, threads
    finally:
        torch.set_num_threads(threads)


@contextmanager
def run_in_threads() -> Iterator[Run]:
    """A `Run` that works on as many parts at a time as torch has threads."""
    with thread_pool() as (pool, threads):

        def run(function: Callable[[int, int], None], count: int) -> None:
            bounds = np.linspace(0, count, threads + 1).astype(int).tolist()
            parts = [(start, stop) for start, stop in pairwise(bounds) if start < stop]
            if len(parts) == 1:
                function(*parts[0])
            else:
                # The list raises what went wrong in a part.
                list(pool.map(lambda part: function(*part), parts))

        yield run


def run_serially(function: Callable[[int, int], None], count: int) -> None:
    """A `Run` in one part, for work that leaves the threads to torch."""
    function(0, count)
