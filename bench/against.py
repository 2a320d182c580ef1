"""Two checkouts of the source in turns: each in a process of its own, the same cases, as multiples of the same floor.

    python bench/losses.py --against ../other-checkout/src [--write]

A process imports `unseen` from the folder that PYTHONPATH names, reads one request per line and answers with CPU
seconds. Requests alternate between the two, so that a machine that slows down for a while slows both.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from measuring import Size, taking_turns, warm_up


class Ratio(NamedTuple):
    """A case at a size: the smallest multiple of the floor of the other checkout (before) and of this one (after)."""

    case: str
    size: Size
    before: float
    after: float

    @property
    def change(self):
        """After relative to before, as a share: 0.1 is 10 % slower."""
        return self.after / self.before - 1


class Checkout:
    """A process that measures cases with the source in one folder."""

    def __init__(self, source, threads):
        environment = os.environ | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": str(threads)}
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(threads)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def measure(self, case, size, budget):
        """Smallest CPU seconds of a step of the floor and of the case."""
        self._process.stdin.write(json.dumps([case, size, budget]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process that measures {case!r} ended; its error is above")
        return json.loads(line)

    def close(self):
        """End the process."""
        self._process.stdin.close()
        self._process.wait()


def compare(sources, work, *, threads, rounds, budget, advance=lambda case, size: None):
    """The ratios of all (case name, size) in `work`; `sources` are the folders of before and after.

    A round measures before and after once. The floor is the smallest of both: it is the same computation.
    """
    checkouts = [Checkout(source, threads) for source in sources]
    ratios = []
    try:
        for case, size in work:
            advance(case, size)
            samples = [[checkout.measure(case, size, budget) for checkout in checkouts] for _ in range(rounds)]
            floor = min(sample[0] for pair in samples for sample in pair)
            before, after = (min(pair[which][1] for pair in samples) / floor for which in range(2))
            ratios.append(Ratio(case, size, before, after))
    finally:
        for checkout in checkouts:
            checkout.close()
    return ratios


def table_of(ratios):
    """Column heads and rows: each case with before, after and the change at each size."""
    sizes = list(dict.fromkeys(ratio.size for ratio in ratios))
    at = {(ratio.case, ratio.size): ratio for ratio in ratios}
    columns = ["loss"]
    for size in sizes:
        classes = f", C = {size.classes:,}" if size.classes else ""
        columns.append(f"B = {size.batch}, d = {size.width}{classes}")
    rows = []
    for case in dict.fromkeys(ratio.case for ratio in ratios):
        cells = [at.get((case, size)) for size in sizes]
        rows.append([case, *(f"{r.before:.2f} -> {r.after:.2f} ({r.change:+.0%})" if r else "" for r in cells)])
    return columns, rows


def serve(threads):
    """Answer requests until the input ends."""
    import torch
    from cases import CASES, floor_step, our_step

    torch.set_num_threads(threads)
    cases = {case.name: case for case in CASES}
    for line in sys.stdin:
        name, size, budget = json.loads(line)
        size, case = Size(*size), cases[name]
        warm_up(lambda size, case=case: our_step(case, size), size)
        times = taking_turns({"floor": floor_step(size), "ours": our_step(case, size)}, budget=budget)
        sys.stdout.write(json.dumps([times["floor"].cpu_minimum, times["ours"].cpu_minimum]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    serve(int(sys.argv[1]))
