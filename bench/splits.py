"""Cost of a ladder of splits: time and memory of `build_ladder` and of its file, at the sizes of CUB, Cars and SOP.

    python -m bench.splits [--sizes cub200 cars196 sop] [--dimensions 512] [--write]

The alternative is what public code does for the distance of a step: both covariances and scipy's root of their product.
One process for each size, so that each has its own peak of memory; features are random, in clusters of classes within
groups, and their making is not timed. `--write` puts the table into bench/results/splits.md
and its numbers into bench/results/splits.csv.
"""

import argparse
import csv
import datetime
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.linalg

from unseen.core.randomness import derive, numpy_generator
from unseen.data import Catalogue, FeatureArray, split_catalogue
from unseen.shifts import PUBLISHED_LADDERS, LadderSource, build_ladder, read_ladder, write_ladder
from unseen.shifts.class_swaps import ClassSplit
from unseen.shifts.incremental_distance import ClassSplitDistances

GROUPS = 12
TARGETS = {"cub200": "seconds", "cars196": "seconds", "sop": "under 300 s and 4 GB"}


class Size(NamedTuple):
    """Images and classes of a data set."""

    images: int
    classes: int


SIZES = {"cub200": Size(11_788, 200), "cars196": Size(16_185, 196), "sop": Size(120_053, 22_634)}


class Cost(NamedTuple):
    """Wall and processor seconds of building, seconds of writing and reading, MB of the file and at the peak.

    ``distance`` and ``by_root`` are milliseconds of one distance of class means, ours and the alternative's.
    """

    size: str
    dimensions: int
    steps: int
    wall: float
    processor: float
    writing: float
    reading: float
    file_mb: float
    peak_mb: float
    distance: float
    by_root: float


def catalogue_of(name, dimensions):
    """A catalogue of features: classes lie around the centres of groups, images around their classes."""
    size = SIZES[name]
    generator = numpy_generator(derive(0, "bench ladder", dimensions))
    scales = np.exp(-3 * np.linspace(0, 1, dimensions)).astype(np.float32)
    labels = np.sort(np.arange(size.images) % size.classes)
    groups = generator.standard_normal((GROUPS, dimensions), np.float32)
    classes = groups[np.arange(size.classes) % GROUPS] + generator.standard_normal(
        (size.classes, dimensions), np.float32
    )
    features = np.empty((size.images, dimensions), np.float32)
    for start in range(0, size.images, 4096):
        own = labels[start : start + 4096]
        features[start : start + 4096] = classes[own] + generator.standard_normal((len(own), dimensions), np.float32)
    features *= scales
    return Catalogue(
        name=name,
        reader=FeatureArray(features),
        labels=labels.astype(np.int64),
        class_names=tuple(f"class {label:05d}" for label in range(size.classes)),
        ids=tuple(f"class {label:05d}/image {number:06d}.jpg" for number, label in enumerate(labels)),
    )


def measure(name, dimensions):
    """The cost of one ladder with the schedule and the rungs of the paper."""
    catalogue = catalogue_of(name, dimensions)
    start = split_catalogue(catalogue, "first:validation=0")
    settings = PUBLISHED_LADDERS[name]
    wall, processor = time.perf_counter(), time.process_time()
    ladder = build_ladder(LadderSource(catalogue, catalogue.reader.features), start, settings)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ladder.json"
        began = time.perf_counter()
        write_ladder(path, ladder)
        writing = time.perf_counter() - began
        began = time.perf_counter()
        read_ladder(path)
        reading = time.perf_counter() - began
        file_mb = path.stat().st_size / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    costs = (wall, processor, writing, reading, file_mb, peak)
    return Cost(name, dimensions, len(ladder.steps), *costs, *one_distance(catalogue, ladder))


def by_root(one, two):
    """The Frechet distance of rows as public code has it."""
    first, second = np.cov(one.T), np.cov(two.T)
    root = scipy.linalg.sqrtm((first + 1e-8 * np.eye(len(first))) @ (second + 1e-8 * np.eye(len(first)))).real
    return np.square(one.mean(0) - two.mean(0)).sum() + np.trace(first + second - 2 * root)


def one_distance(catalogue, ladder):
    """Milliseconds of the distance of class means of the last rung, ours and the alternative's, which must agree."""
    distances = ClassSplitDistances(catalogue.reader.features, catalogue.labels)
    label_of = {name: label for label, name in enumerate(catalogue.class_names)}
    rung = ladder.rungs[-1]
    sides = [np.array([label_of[name] for name in names]) for names in ([*rung.train, *rung.validation], rung.test)]
    means = [distances.means[side].astype(np.float64) for side in sides]
    spent, values = [], []
    for compute in (lambda: distances.between(ClassSplit(*sides), "class"), lambda: by_root(*means)):
        began = time.perf_counter()
        values.append(compute())
        spent.append(1000 * (time.perf_counter() - began))
    if not np.isclose(values[0], values[1], rtol=1e-3):
        raise SystemExit(f"the two distances differ: {values}")
    return spent


def table(costs):
    """The result as Markdown."""
    lines = [
        "# Building a ladder of splits",
        "",
        "The schedule and the rungs of Milbich et al., distances of class means at every step and of samples at the"
        " rungs and 9 steps more, episodes of 2, 5 and 10 shots; clustered random features. Peak memory is that of the"
        " whole process, features included. At the end: one distance of class means, that of the last rung, ours and"
        " by scipy.linalg.sqrtm of the product of the covariances.",
        "",
        "| size | dimensions | steps | wall s | processor s | write s | read s | file MB | peak MB | target"
        " | a distance ms | by scipy's root ms | ratio |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {cost.size} | {cost.dimensions} | {cost.steps} | {cost.wall:.1f} | {cost.processor:.1f}"
        f" | {cost.writing:.1f} | {cost.reading:.1f} | {cost.file_mb:.1f} | {cost.peak_mb:.0f} | {TARGETS[cost.size]}"
        f" | {cost.distance:.0f} | {cost.by_root:.0f} | {cost.by_root / cost.distance:.1f} |"
        for cost in costs
    ]
    return "\n".join([*lines, "", machine()]) + "\n"


def machine():
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    processor = names[0].split(":", 1)[1].strip() if names else platform.machine()
    return (
        f"Measured {datetime.date.today().isoformat()} on {processor}, {os.cpu_count()} processors,"
        f" NumPy {np.__version__}, Python {platform.python_version()}; load average {os.getloadavg()[0]:.1f}."
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", nargs="+", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--dimensions", nargs="+", type=int, default=[512])
    parser.add_argument("--write", action="store_true", help="write bench/results/splits.md and .csv")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        print(",".join(map(str, measure(options.sizes[0], options.dimensions[0]))))
        return
    costs = []
    for size in options.sizes:
        for dimensions in options.dimensions:
            arguments = ["--alone", "--sizes", size, "--dimensions", str(dimensions)]
            command = [sys.executable, "-m", "bench.splits", *arguments]
            name, width, steps, *numbers = subprocess.run(
                command, check=True, capture_output=True, text=True
            ).stdout.split(",")
            costs.append(Cost(name, int(width), int(steps), *map(float, numbers)))
            print(costs[-1])
    text = table(costs)
    print(text)
    if options.write:
        folder = Path(__file__).parent / "results"
        folder.mkdir(exist_ok=True)
        (folder / "splits.md").write_text(text)
        with open(folder / "splits.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(Cost._fields)
            writer.writerows(costs)


if __name__ == "__main__":
    main()
