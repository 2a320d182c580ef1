"""Training on image files: the loop of `unseen train`, a plain loop over tensors in memory, and the loop of before.

    python -m bench.pipeline [--against OTHER/src] [--data FOLDER] [--batch 112] [--steps 4] [--rounds 3]
                             [--compiled] [--write]

EfficientNet-Lite0 with frozen batch norm statistics, augmentation, multi-similarity and Adam at 160 and 224 pixels:
all weights (`full`), and the last two stages on cached activations (`top`). "The model alone" is the step that a plain
script takes, on batches that were loaded before. Each subject is a process of its own, since what the allocator does
with freed memory is settled once a process; the processes take turns, a round at a time. `--against` adds the loop of
another checkout, which imports its own source; `--compiled` the loop with torch's compiler. The first step of a round
has a column of its own, and so has the very first one, in which compilers run. `--data` names a folder with one
sub-folder of JPEG files per class; without it 2,000 files are drawn. `--write` puts the table into
bench/results/pipeline.md and its numbers into bench/results/pipeline.csv.
"""

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, NamedTuple, cast

import numpy as np
from PIL import Image

from bench.against import ROOT, SOURCE
from bench.measuring import RESULTS, machine
from bench.pipeline_subject import Subject
from unseen.core.randomness import derive, numpy_generator

SIZES, DEPTHS = (160, 224), ("full", "top")
SHORTER_SIDE, CLASSES, FILES_OF_A_CLASS = 256, 100, 20
MODEL, LOOP, BEFORE, LOADER = "the model alone", "the loop", "the loop before", "the loader alone"
COMPILED = "the loop with --compile"
LEAST_GAIN, LEAST_SHARE = 1.7, 0.9
# Of the environment, these move the numbers most: threads that sleep while they wait, and memory that is kept.
SETTINGS = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_")


class Cost(NamedTuple):
    """Seconds of one step: by the clock, and of processor time."""

    wall: float
    cpu: float


class Row(NamedTuple):
    """The median step of a subject, in itself and as a multiple of the model alone and of the loop before.

    `start_seconds` is the very first step of the process, with all that is compiled and looked up once.
    """

    subject: str
    depth: str
    size: int
    images_per_second: float
    cpu_ms: float
    times_model: float
    times_before: float
    cpu_before: float
    first_step_seconds: float
    start_seconds: float


Key = tuple[str, str, int]


class Process:
    """A subject in a process that imports `unseen` from a source folder."""

    def __init__(self, subject: Subject, source: Path = SOURCE) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.pipeline_subject"],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (source.resolve(), ROOT)))},
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._requests = cast(IO[str], self._process.stdin)
        self._answers = cast(IO[str], self._process.stdout)
        self._requests.write(json.dumps(subject) + "\n")

    def round(self, number: int) -> list[Cost]:
        """The costs of the steps of a round."""
        self._requests.write(f"{number}\n")
        self._requests.flush()
        line = self._answers.readline()
        if not line:
            raise RuntimeError("the process of a subject ended; its error is above")
        return [Cost(*pair) for pair in json.loads(line)]

    def close(self) -> None:
        """End the process."""
        self._requests.close()
        self._process.wait()
        self._answers.close()


def draw_files(root: Path, classes: int = CLASSES, of_a_class: int = FILES_OF_A_CLASS) -> None:
    """JPEG files with a shorter side of 256 pixels: soft colours with a grain, as large as photographs of this size."""
    generator = numpy_generator(derive(0, "bench images"))
    for label in range(classes):
        place = root / f"class{label:03d}"
        place.mkdir(parents=True)
        for number in range(of_a_class):
            width = int(generator.integers(280, 385))
            coarse = Image.fromarray(generator.integers(0, 256, (12, 15, 3), np.uint8))
            soft = np.asarray(coarse.resize((width, SHORTER_SIDE), Image.Resampling.BICUBIC), np.float32)
            pixels = np.clip(soft + generator.normal(0, 6, soft.shape), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(place / f"{number:02d}.jpg", quality=90)


def subjects(root: Path, batch: int, steps: int, *, compiled: bool = False) -> dict[Key, Subject]:
    """The subjects of this checkout by what the table calls them; the loop before is its loop in another checkout."""
    made = {}
    for size in SIZES:
        for depth in DEPTHS:
            for name, kind in ((MODEL, "model"), (LOOP, "loop")):
                made[name, depth, size] = Subject(kind, depth, size, batch, steps, str(root))
        made[LOADER, "full", size] = Subject("loader", "full", size, batch, steps, str(root))
        if compiled:
            made[COMPILED, "full", size] = Subject("compiled loop", "full", size, batch, steps, str(root))
    return made


def measure(chosen: Mapping[Key, Subject], rounds: int, before: Path | None = None) -> dict[Key, list[list[Cost]]]:
    """The costs of the steps of a round to warm up and of each round; the processes take turns to go first."""
    with ExitStack() as stack:
        running: dict[Key, Process] = {}
        for (name, depth, size), subject in chosen.items():
            running[name, depth, size] = Process(subject)
            if name == LOOP and before is not None:
                running[BEFORE, depth, size] = Process(subject, before)
        for process in running.values():
            stack.callback(process.close)
        costs: dict[Key, list[list[Cost]]] = {key: [] for key in running}
        for number in range(rounds + 1):
            keys = list(running)
            for key in keys[number % len(keys) :] + keys[: number % len(keys)]:
                costs[key].append(running[key].round(number))
    return costs


def rows_of(costs: Mapping[Key, Sequence[Sequence[Cost]]], batch: int) -> list[Row]:
    """The median step of each subject; the first steps of rounds are apart.

    The median, as the machine is rarely idle, and as a best step may be one for which the batch was loaded long before.
    """
    later = {key: [cost for steps in rounds[1:] for cost in steps[1:]] for key, rounds in costs.items()}
    wall = {key: statistics.median(cost.wall for cost in found) for key, found in later.items()}
    cpu = {key: statistics.median(cost.cpu for cost in found) for key, found in later.items()}
    rows = []
    for key, rounds in costs.items():
        name, depth, size = key
        model, before = (MODEL, depth, size), (BEFORE, depth, size)
        is_loop = name == LOOP and before in wall
        row = Row(
            *key,
            images_per_second=batch / wall[key],
            cpu_ms=1e3 * cpu[key] / batch,
            times_model=wall[model] / wall[key],
            times_before=wall[before] / wall[key] if is_loop else float("nan"),
            cpu_before=cpu[before] / cpu[key] if is_loop else float("nan"),
            first_step_seconds=statistics.median(steps[0].wall for steps in rounds[1:]),
            start_seconds=rounds[0][0].wall,
        )
        rows.append(row)
    return rows


def table(rows: Sequence[Row], *, source: str, batch: int, steps: int, rounds: int) -> str:
    """The result as Markdown."""
    lines = [
        "# Training on image files",
        "",
        f"Fine-tuning EfficientNet-Lite0 on {source}: random crops and flips, multi-similarity, Adam, batches of"
        f" {batch}. Median step of {rounds} interleaved rounds of {steps} steps, first steps apart; a process for each"
        " row. Processor time is that of all threads. `top` trains the last two stages on cached activations.",
        "",
        "| subject | depth | pixels | images a second | processor ms an image | times the model alone | times before |"
        " processor time before / now | first step, s | start, s |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        gains = ["" if np.isnan(gain) else f"{gain:.2f}" for gain in (row.times_before, row.cpu_before)]
        lines.append(
            f"| {row.subject} | {row.depth} | {row.size} | {row.images_per_second:.1f} | {row.cpu_ms:.1f} |"
            f" {row.times_model:.2f} | {' | '.join(gains)} | {row.first_step_seconds:.1f} |"
            f" {row.start_seconds:.0f} |"
        )
    stated = ", ".join(f"{name}={os.environ[name]}" for name in SETTINGS if name in os.environ)
    lines += ["", f"{verdicts(rows)} {machine()} Environment: {stated or 'nothing set'}."]
    return "\n".join(lines) + "\n"


def verdicts(rows: Sequence[Row]) -> str:
    """The targets, and what was reached."""
    loops = [row for row in rows if row.subject == LOOP]
    shares = [row.times_model for row in loops]
    gains = [row.times_before for row in loops if not np.isnan(row.times_before)]
    words = (
        f"Targets: at least {LEAST_SHARE} of the model alone, with files, augmentation and guards (reached:"
        f" {min(shares):.2f} to {max(shares):.2f})"
    )
    if gains:
        words += f"; {LEAST_GAIN} times the loop before (reached: {min(gains):.2f} to {max(gains):.2f})"
    return words + "."


def write(rows: Sequence[Row], text: str, place: Path = RESULTS) -> None:
    """The table and its numbers as files."""
    place.mkdir(exist_ok=True)
    (place / "pipeline.md").write_text(text)
    with open(place / "pipeline.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(Row._fields)
        writer.writerows([*row[:3], *(f"{number:.4f}" for number in row[3:])] for row in rows)


@contextmanager
def image_folder(given: Path | None) -> Iterator[tuple[Path, str]]:
    """A folder of images and its name: the given one, or a temporary one with drawn images."""
    if given is not None:
        yield given, f"the images of `{given.parent.name}/{given.name}`"
        return
    with tempfile.TemporaryDirectory() as made:
        draw_files(Path(made))
        count = CLASSES * FILES_OF_A_CLASS
        yield Path(made), f"{count:,} drawn JPEG files with a shorter side of {SHORTER_SIDE} pixels"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--against", type=Path, help="the source folder of another checkout: its loop is `before`")
    parser.add_argument("--data", type=Path, help="a folder with a sub-folder of images a class; drawn if not given")
    parser.add_argument("--batch", type=int, default=112)
    parser.add_argument("--steps", type=int, default=4, help="steps of a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--compiled", action="store_true", help="measure --compile as well, which takes minutes more")
    parser.add_argument("--write", action="store_true", help="write bench/results/pipeline.md and .csv")
    options = parser.parse_args()
    with image_folder(options.data) as (root, source):
        chosen = subjects(root, options.batch, options.steps, compiled=options.compiled)
        costs = measure(chosen, options.rounds, options.against)
    rows = rows_of(costs, options.batch)
    text = table(rows, source=source, batch=options.batch, steps=options.steps, rounds=options.rounds)
    print(text)
    if options.write:
        write(rows, text)


if __name__ == "__main__":
    main()
