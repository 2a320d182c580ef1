"""Measuring: interleaved rounds in one process, peak memory in a child process, and the line about the machine.

Linux only: memory and processor are read from /proc.
"""

import ctypes
import datetime
import gc
import multiprocessing
import os
import platform
import resource
import signal
import statistics
import time
import warnings
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from pytorch_metric_learning.utils import loss_and_miner_utils

RESULTS = Path(__file__).parent / "results"
MEMORY_CAP = 6 * 2**30
SLOWEST_STEP = 20.0
"""Seconds: a step that takes longer is given up and reported as such."""
SLOW_STEP = 1.5
"""Seconds of CPU time: a step that takes longer is taken once."""
OUT_OF_MEMORY, TOO_SLOW = "out of memory", "skipped: too slow"


class Size(NamedTuple):
    """What a case is measured at; `classes` is the number of proxies, 0 where there are none."""

    batch: int
    width: int
    classes: int = 0
    per_class: int = 4


class Times(NamedTuple):
    """Seconds per step of one subject."""

    cpu_minimum: float
    cpu_median: float
    wall_minimum: float
    wall_median: float
    rounds: int


class Refused(Exception):
    """A subject that needs more memory or time than the bench gives it."""


def machine():
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    processor = names[0].split(":", 1)[1].strip() if names else platform.processor() or platform.machine()
    threads = torch.get_num_threads()
    return (
        f"Measured {datetime.date.today().isoformat()} on {processor}, {os.cpu_count()} cores, {threads}"
        f" thread{'s' if threads > 1 else ''}, torch {torch.__version__}, Python {platform.python_version()};"
        f" load average {os.getloadavg()[0]:.1f} (about 1 to 2 is this bench alone, more is others' work)."
    )


def prepare_theirs():
    """Let pytorch-metric-learning's distance-weighted miner draw one triplet an anchor, as ours does.

    It takes no such setting; by itself it draws as many triplets an anchor as its class has samples.
    """
    # Its histogram loss indexes by lists, and is warned of it at every step.
    warnings.filterwarnings("ignore", module="pytorch_metric_learning")
    loss_and_miner_utils.get_random_triplet_indices = partial(
        loss_and_miner_utils.get_random_triplet_indices, t_per_anchor=1
    )


@contextmanager
def guarded(seconds=SLOWEST_STEP, memory=MEMORY_CAP):
    """Refuse what takes longer (noticed when the running operation ends) or allocates more than this."""

    def give_up(signal_number, frame):
        raise Refused(TOO_SLOW)

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = signal.signal(signal.SIGALRM, give_up)
    resource.setrlimit(resource.RLIMIT_AS, (now + memory, hard))
    signal.setitimer(signal.ITIMER_REAL, seconds)  # a timer of CPU time would make the CPU clock coarse
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not isinstance(error, MemoryError) and "alloc" not in str(error).lower():
            raise
        raise Refused(OUT_OF_MEMORY) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def warm_up(make, size):
    """One step at a small batch: what is imported, compiled or looked up once is not the cost of a step."""
    make(size._replace(batch=8 * size.per_class))(0)


def clocked(step, repeats, first):
    """CPU and wall seconds of one of `repeats` steps."""
    cpu, wall = time.process_time(), time.perf_counter()
    for number in range(first, first + repeats):
        step(number)
    return (time.process_time() - cpu) / repeats, (time.perf_counter() - wall) / repeats


def taking_turns(steps, *, budget, sample=2e-3, least=2, most=60):
    """Name -> Times of each step, or the words of its refusal; the steps take turns until the budget is spent.

    A sample is as many steps as fill `sample` seconds. The first step of each is left out, unless it is so slow that
    it stays the only one.
    """
    samples, repeats, refused = {}, {}, {}
    for name, step in steps.items():
        try:
            with guarded():
                samples[name] = [clocked(step, 1, 0)]
                if samples[name][0][0] < SLOW_STEP:
                    samples[name] = [clocked(step, 1, 1)]
                    repeats[name] = max(1, round(sample / samples[name][0][0]))
        except Refused as refusal:
            refused[name] = str(refusal)
            gc.collect()
    start, number = time.perf_counter(), 2
    for turn in range(most):
        if turn >= least and time.perf_counter() - start > budget:
            break
        for name, count in repeats.items():
            samples[name].append(clocked(steps[name], count, number))
            number += count
    return {name: refused[name] if name in refused else times_of(samples[name]) for name in steps}


def times_of(samples):
    cpu, wall = zip(*samples, strict=True)
    return Times(min(cpu), statistics.median(cpu), min(wall), statistics.median(wall), len(samples))


def status_field(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def _report_peak(connection, make, size, threads):
    torch.set_num_threads(threads)
    prepare_theirs()
    try:
        with guarded():
            warm_up(make, size)  # the libraries' own pages and buffers are not the step's
        step = make(size)
        with guarded():
            gc.collect()
            ctypes.CDLL(None).malloc_trim(0)  # nothing kept from the small step, so that all is counted
            Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew at what is held now
            held = status_field("VmRSS")
            step(0)
        connection.send(status_field("VmHWM") - held)
    except Refused as refusal:
        connection.send(str(refusal))


def peak_memory(make, size, threads):
    """Bytes that the first step of `make(size)` adds at its peak to the memory of a fresh child, or its refusal."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "pytorch_metric_learning.losses", "unseen"])
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_report_peak, args=(sender, make, size, threads))
    child.start()
    sender.close()
    try:
        return receiver.recv()
    except EOFError:
        child.join()
        if child.exitcode != -signal.SIGKILL:
            raise
        return OUT_OF_MEMORY  # ended by the system
    finally:
        child.join()
