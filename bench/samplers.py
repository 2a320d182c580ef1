"""Cost of drawing a batch: every sampler at the size of CUB, and FRD as published, with roots of d x d matrices.

    python -m bench.samplers [--rounds 10] [--slow-rounds 2] [--write]

One process, interleaved rounds, one thread, processor time; `--write` puts the table into bench/results/samplers.md
and its numbers into bench/results/samplers.csv. The setting is that of Roth et al. (2020) on CUB: 5,864 images of 100
classes, embeddings of 512, batches of 56 classes x 2, a big batch of 512 and 10 candidates.
"""

import argparse
import csv
import datetime
import os
import platform
import statistics
import time
from pathlib import Path

import numpy as np
import scipy
from scipy.linalg import sqrtm
from threadpoolctl import threadpool_limits

from unseen.core.randomness import derive, numpy_generator
from unseen.core.registry import REGISTRIES
from unseen.samplers import BatchPosition, EmbeddingAwareBatches
from unseen.samplers.candidates import CandidateSampler

SAMPLES, CLASSES, EMBEDDING = 5864, 100, 512
BATCH, PER_CLASS, BIG_BATCH, CANDIDATES = 112, 2, 512, 10
TARGET = 50.0
PUBLISHED = "FRD, the published logic: a matrix root for each candidate"


def store():
    """Clustered embeddings and their labels."""
    generator = numpy_generator(derive(0, "bench store"))
    labels = np.arange(SAMPLES) % CLASSES
    centres = generator.standard_normal((CLASSES, EMBEDDING))
    return centres[labels] + 1.5 * generator.standard_normal((SAMPLES, EMBEDDING)), labels


def published_costs(rows, chosen):
    """Frechet distances by covariances and the root of their product, 1e-8 I added, for one candidate at a time."""
    ridge = 1e-8 * np.eye(rows.shape[1])
    mean, covariance = rows.mean(axis=0), np.cov(rows, rowvar=False)
    costs = []
    for positions in chosen:
        own_mean, own = rows[positions].mean(axis=0), np.cov(rows[positions], rowvar=False)
        root = np.real(sqrtm((covariance + ridge) @ (own + ridge)))
        costs.append(((mean - own_mean) ** 2).sum() + np.trace(covariance + own - 2 * root))
    return np.array(costs)


class PublishedFRD(CandidateSampler):
    """FRD with the published costs."""

    def costs(self, rows, chosen):
        """Return the costs of all candidates."""
        return published_costs(rows, chosen)


def drawing(batches, embeddings):
    """Return a function that draws batch after batch, each after an update of a batch of stored rows."""
    if not isinstance(batches, EmbeddingAwareBatches):
        return lambda number: batches.batch(BatchPosition(0, number))
    batches.batches_per_epoch = 1  # one batch per request: its whole cost
    batches.start(embeddings)

    def draw(number):
        batch = batches.batch(BatchPosition(number, 0))
        batches.observe(batch, embeddings[batch])
        return batch

    return draw


def variants(embeddings, labels):
    """Every registered sampler with the settings of Roth et al., and FRD as published."""
    samplers = REGISTRIES["sampler"]
    made = {name: samplers[name]().batches(labels, seed=0) for name in samplers.names()}
    made[PUBLISHED] = PublishedFRD().batches(labels, seed=0)
    return {name: drawing(batches, embeddings) for name, batches in made.items()}


def measure(rounds, slow_rounds):
    """Seconds of processor time for each batch of each variant; the variants take turns."""
    running = variants(*store())
    seconds: dict[str, list[float]] = {name: [] for name in running}
    for name, draw in running.items():  # warm up
        if name != PUBLISHED:
            draw(0)
    for number in range(1, rounds + 1):
        for name, draw in running.items():
            if name == PUBLISHED and number > slow_rounds:
                continue
            began = time.process_time()
            draw(number)
            seconds[name].append(time.process_time() - began)
    return seconds


def rows_of(seconds):
    """Name, rounds, smallest and median milliseconds, times the cost of FRD."""
    ours = min(seconds["frd"])
    return [
        (name, len(values), 1e3 * min(values), 1e3 * statistics.median(values), min(values) / ours)
        for name, values in seconds.items()
    ]


def table(rows):
    """The result as Markdown."""
    lines = [
        "# Drawing a batch",
        "",
        f"{SAMPLES:,} images of {CLASSES} classes, embeddings of {EMBEDDING}; batch {BATCH // PER_CLASS} x {PER_CLASS},"
        f" big batch {BIG_BATCH}, {CANDIDATES} candidates. Processor time of one batch, one thread, overwriting the"
        " rows of the batch in the store included; interleaved rounds of one process.",
        "",
        "| sampler | batches | smallest ms | median ms | times frd |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {name} | {count} | {low:.2f} | {middle:.2f} | {times:.2f} |" for name, count, low, middle, times in rows
    ]
    slowest = max(middle for name, _, _, middle, _ in rows if name != PUBLISHED)
    lines += [
        "",
        f"Target: at most {TARGET:.0f} ms for each of ours; the slowest median is {slowest:.1f} ms. {machine()}",
    ]
    return "\n".join(lines) + "\n"


def machine():
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    processor = names[0].split(":", 1)[1].strip() if names else platform.machine()
    return (
        f"Measured {datetime.date.today().isoformat()} on {processor}, 1 thread, NumPy {np.__version__},"
        f" SciPy {scipy.__version__}, Python {platform.python_version()}; load average {os.getloadavg()[0]:.1f}"
        " (about 1 is this bench alone, more is others' work)."
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--slow-rounds", type=int, default=2, help="rounds in which the published FRD takes part")
    parser.add_argument("--write", action="store_true", help="write bench/results/samplers.md and .csv")
    options = parser.parse_args()
    with threadpool_limits(1):
        rows = rows_of(measure(options.rounds, options.slow_rounds))
    text = table(rows)
    print(text)
    if options.write:
        folder = Path(__file__).parent / "results"
        folder.mkdir(exist_ok=True)
        (folder / "samplers.md").write_text(text)
        with open(folder / "samplers.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["sampler", "batches", "smallest_ms", "median_ms", "times_frd"])
            writer.writerows((name, count, *(f"{each:.4f}" for each in numbers)) for name, count, *numbers in rows)


if __name__ == "__main__":
    main()
