"""Records: what was measured, one row for each subject and size, and the comma-separated file of them."""

import csv
from functools import partial
from typing import NamedTuple

from bench.cases import floor_step, our_step, their_step
from bench.measuring import Refused, Size, Times, guarded, peak_memory, taking_turns, warm_up

OURS, THEIRS, FLOOR = "unseen", "pytorch-metric-learning", "floor"

Refusals = dict[tuple[str, str], tuple[Size, str]]
"""(case, subject) -> the smallest size that was refused, and why."""


class Record(NamedTuple):
    """One subject at one size: seconds per step beside the floor of the same rounds, or why there are none."""

    case: str
    kind: str
    subject: str
    batch: int
    width: int
    classes: int
    status: str
    times: Times | None
    floor: Times
    peak_bytes: int | None = None
    peak_status: str = ""

    @property
    def multiple(self):
        """Minimum over minimum: the number that the targets speak of."""
        assert self.times is not None
        return self.times.cpu_minimum / self.floor.cpu_minimum

    @property
    def median_multiple(self):
        """Median over median."""
        assert self.times is not None
        return self.times.cpu_median / self.floor.cpu_median


def measured(case, size, *, budget, hopeless: Refusals) -> list[Record]:
    """The records of ours and theirs at a size; a subject refused at a smaller size is not tried.

    New refusals are added to `hopeless`.
    """
    steps, refused = {FLOOR: floor_step(size)}, {}
    for subject, make in ((OURS, our_step), (THEIRS, their_step)):
        if subject == THEIRS and case.theirs is None:
            continue
        earlier, words = hopeless.get((case.name, subject), (None, ""))
        if earlier and all(now >= before for now, before in zip(size, earlier, strict=True)):
            refused[subject] = words
            continue
        try:
            with guarded():
                warm_up(partial(make, case), size)
                steps[subject] = make(case, size)
        except Refused as refusal:
            refused[subject] = str(refusal)
    times = taking_turns(steps, budget=budget) | refused
    floor = times.pop(FLOOR)
    records = []
    for subject in (name for name in (OURS, THEIRS) if name in times):
        result = times[subject]
        is_refused = isinstance(result, str)
        if is_refused:
            hopeless.setdefault((case.name, subject), (size, result))
        records.append(
            Record(
                case.name,
                case.kind,
                subject,
                size.batch,
                size.width,
                size.classes,
                result if is_refused else "ok",
                None if is_refused else result,
                floor,
            )
        )
    return records


def with_peak(record, case, size, threads):
    """The record with the peak memory of its subject, measured in a child."""
    peak = peak_memory(partial(_make, case.name, record.subject), size, threads)
    return record._replace(peak_status=peak) if isinstance(peak, str) else record._replace(peak_bytes=peak)


def _make(name, subject, size):
    from bench.cases import CASES  # cases hold functions without a name, which cannot be sent to a child

    case = next(case for case in CASES if case.name == name)
    return (our_step if subject == OURS else their_step)(case, size)


def write_csv(records, path):
    columns = ("case", "kind", "subject", "batch", "width", "classes", "status")
    clocks = ("cpu_minimum", "cpu_median", "wall_minimum", "wall_median")
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(
            [
                *columns,
                *(f"{clock}_ms" for clock in clocks),
                *(f"floor_{clock}_ms" for clock in clocks),
                "times_floor_minimum",
                "times_floor_median",
                "rounds",
                "peak_mb",
                "peak_status",
            ]
        )
        for record in records:
            times = record.times
            writer.writerow(
                [
                    *(getattr(record, column) for column in columns),
                    *(f"{getattr(times, clock) * 1e3:.4f}" if times else "" for clock in clocks),
                    *(f"{getattr(record.floor, clock) * 1e3:.4f}" for clock in clocks),
                    f"{record.multiple:.3f}" if times else "",
                    f"{record.median_multiple:.3f}" if times else "",
                    times.rounds if times else 0,
                    "" if record.peak_bytes is None else f"{record.peak_bytes / 2**20:.1f}",
                    record.peak_status,
                ]
            )


def markdown_table(columns, rows):
    return [
        "| " + " | ".join(columns) + " |",
        "|---" * len(columns) + "|",
        *("| " + " | ".join(r) + " |" for r in rows),
    ]
