"""Two checkouts of the source in turns: each in a process of its own, the same cases, as multiples of the same floor.

    python -m bench.losses --against ../other-checkout/src [--write]

A process imports `unseen` from the folder that comes first in PYTHONPATH, reads one request per line and answers with
CPU seconds. Requests alternate between the two, so that a machine that slows down for a while slows both.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple, cast

from bench.measuring import Size, taking_turns, warm_up

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"


class Ratio(NamedTuple):
    """A case at a size: the smallest multiple of the floor of the other checkout (before) and of this one (after)."""

    case: str
    size: Size
    before: float
    after: float

    @property
    def change(self) -> float:
        """After relative to before, as a share: 0.1 is 10 % slower."""
        return self.after / self.before - 1


class Checkout:
    """A process that measures cases with the source in one folder."""

    def __init__(self, source: Path, threads: int) -> None:
        path = os.pathsep.join(map(str, (source.resolve(), ROOT)))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.against", str(threads)],
            env=os.environ | {"PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._requests = cast(IO[str], self._process.stdin)
        self._answers = cast(IO[str], self._process.stdout)

    def measure(self, case: str, size: Size, budget: float) -> tuple[float, float]:
        """Smallest CPU seconds of a step of the floor and of the case."""
        self._requests.write(json.dumps([case, size, budget]) + "\n")
        self._requests.flush()
        line = self._answers.readline()
        if not line:
            raise RuntimeError(f"the process that measures {case!r} ended; its error is above")
        floor, seconds = json.loads(line)
        return floor, seconds

    def close(self) -> None:
        """End the process."""
        self._requests.close()
        self._process.wait()


def compare(
    before: Path,
    work: Sequence[tuple[str, Size]],
    *,
    threads: int = 1,
    rounds: int = 5,
    budget: float = 0.1,
    progress: Callable[[int, int, str], None] = lambda done, total, message: None,
) -> list[Ratio]:
    """The ratios of all (case name, size) in `work`: the source in the folder `before`, and that of this checkout.

    A round measures each once, for `budget` seconds. The floor is the smallest of both: it is the same computation.
    """
    checkouts = [Checkout(source, threads) for source in (before, SOURCE)]
    ratios = []
    try:
        for done, (case, size) in enumerate(work):
            progress(done, len(work), f"{case}, B = {size.batch}")
            samples = [[checkout.measure(case, size, budget) for checkout in checkouts] for _ in range(rounds)]
            floor = min(sample[0] for both in samples for sample in both)
            smallest = [min(both[which][1] for both in samples) for which in range(2)]
            ratios.append(Ratio(case, size, smallest[0] / floor, smallest[1] / floor))
    finally:
        for checkout in checkouts:
            checkout.close()
    return ratios


def table_of(ratios: Sequence[Ratio]) -> tuple[list[str], list[list[str]]]:
    """Column heads and rows: each case with before, after and the change at each batch size."""
    batches = sorted({ratio.size.batch for ratio in ratios})
    at = {(ratio.case, ratio.size.batch): ratio for ratio in ratios}
    rows = []
    for case in dict.fromkeys(ratio.case for ratio in ratios):
        cells = (at.get((case, batch)) for batch in batches)
        rows.append([case, *(f"{r.before:.2f} -> {r.after:.2f} ({r.change:+.0%})" if r else "" for r in cells)])
    return ["loss", *(f"B = {batch}" for batch in batches)], rows


def serve(threads: int) -> None:
    """Answer requests until the input ends."""
    import torch

    from bench.cases import CASES, floor_step, our_step  # imports the source that is measured

    torch.set_num_threads(threads)
    cases = {case.name: case for case in CASES}
    for line in sys.stdin:
        name, numbers, budget = json.loads(line)
        size, case = Size(*numbers), cases[name]
        warm_up(partial(our_step, case), size)
        times = taking_turns({"floor": floor_step(size), "case": our_step(case, size)}, budget=budget)
        seconds = [result if isinstance(result, str) else result.cpu_minimum for result in times.values()]
        sys.stdout.write(json.dumps(seconds) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve(int(sys.argv[1]))
