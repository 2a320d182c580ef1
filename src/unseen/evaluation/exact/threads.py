"""Threads of our own for loops and products that release Python's lock, in place of those that torch keeps."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import torch

Run: TypeAlias = Callable[[Callable[[tuple[int, int]], int], int], int]


@contextmanager
def own_threads() -> Iterator[tuple[ThreadPoolExecutor, int]]:
    """As many threads as torch has, and their number; torch itself has one meanwhile, in each of them too.

    Those it keeps would wait for its next product by turning round and round, on the processors that ours need.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            yield pool, threads
    finally:
        torch.set_num_threads(threads)


@contextmanager
def workers() -> Iterator[Run]:
    """A way to run a function over parts of a range, as many at a time as torch has threads; gives the sum."""
    with own_threads() as (pool, threads):

        def run(function: Callable[[tuple[int, int]], int], count: int) -> int:
            bounds = np.linspace(0, count, threads + 1).astype(int).tolist()
            parts = [(start, stop) for start, stop in pairwise(bounds) if start < stop]
            return sum(pool.map(function, parts)) if len(parts) > 1 else sum(map(function, parts))

        yield run


def at_once(function: Callable[[tuple[int, int]], int], count: int) -> int:
    """A `Run` in one piece, for work that leaves the threads to torch."""
    return function((0, count))
