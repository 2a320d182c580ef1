"""Speed and memory of all retrieval scores and of k-means, beside a bare blocked product and what others offer.

    python -m bench.evaluation [--quick] [--sizes small,cub,inshop,sop] [--rounds 3] [--threads 2] [--scaling] [--write]

Each variant takes its turn in one process after the bare product, and is given as a multiple of it: float32 inner
products of all queries and gallery items in square tiles of 2048. Clustered random embeddings of 512 dimensions whose
classes overlap (recall@1 near 40 to 70 %). Peak memory beyond the embeddings is that of a child process of its own.
Ours are all scores of ranks: recall, precision, R-precision, mAP and its variants, MRR and nDCG, exact, with ties by
expected value, without intervals. "NumPy: sorted rows" computes the same families from float32 similarities as one
would write them by hand; pytorch-metric-learning computes precision@1, R-precision, mAP@R and mAP.
k-means is that of bench/kmeans.py, whose tables are its own, beside faiss and scikit-learn. At SOP size everything is
measured once. The whole takes about 12 minutes on two cores.
`--scaling` measures 1,000 to 200,000 points instead; `--write` puts md, csv and the plot of scaling into bench/results.
"""

import argparse
import csv
import datetime
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from bench import kmeans
from unseen.core.console import progress_bar
from unseen.core.randomness import derive, torch_generator
from unseen.evaluation.exact.inputs import read_table
from unseen.evaluation.exact.ranks import rank_positives
from unseen.evaluation.score_table import read_names

WIDTH, SIDE = 512, 2048
RESULTS = Path(__file__).parent / "results"


class Size(NamedTuple):
    """Points, classes, noise around the centre of a class, and how many of the points only ask."""

    points: int
    classes: int
    noise: float
    queries: int = 0


SIZES = {
    "small": Size(1_000, 200, 2.5),
    "cub": Size(5_924, 100, 3.5),
    "inshop": Size(26_830, 3_985, 2.5, queries=14_218),
    "sop": Size(60_502, 11_316, 2.5),
}


class Data(NamedTuple):
    """Queries and gallery; the same tensors where every point is both."""

    queries: torch.Tensor
    query_labels: torch.Tensor
    gallery: torch.Tensor
    gallery_labels: torch.Tensor


def make(size):
    generator = torch_generator(derive(0, "bench evaluation", size.points))
    labels = torch.arange(size.points) % size.classes
    rows = torch.randn(size.classes, WIDTH, generator=generator)[labels]
    rows += size.noise * torch.randn(size.points, WIDTH, generator=generator)
    rows = torch.nn.functional.normalize(rows)
    if not size.queries:
        return Data(rows, labels, rows, labels)
    order = torch.randperm(size.points, generator=generator)
    asked, answers = order[: size.queries], order[size.queries :]
    return Data(rows[asked], labels[asked], rows[answers], labels[answers])


def product(data):
    buffer = torch.empty(SIDE * SIDE)
    for row in range(0, len(data.queries), SIDE):
        asked = data.queries[row : row + SIDE]
        for column in range(0, len(data.gallery), SIDE):
            items = data.gallery[column : column + SIDE]
            torch.mm(asked, items.T, out=buffer[: len(asked) * len(items)].view(len(asked), len(items)))


def ours(data):
    wanted, _ = read_names("ranks", (1, 2, 4, 8))
    gallery = None if data.gallery is data.queries else (data.gallery, data.gallery_labels)
    ranks = rank_positives(read_table(data.queries, data.query_labels, gallery=gallery))
    return {name: float(np.mean(score(ranks))) for name, score in wanted.items()}


def faiss_1000(data):
    import faiss

    faiss.omp_set_num_threads(torch.get_num_threads())
    index = faiss.IndexFlatIP(WIDTH)
    index.add(data.gallery.numpy())
    index.search(data.queries.numpy(), min(1000, len(data.gallery)))


def _accuracy(data, k):
    import faiss
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

    faiss.omp_set_num_threads(torch.get_num_threads())
    is_one = data.gallery is data.queries
    calculator = AccuracyCalculator(
        include=("precision_at_1", "r_precision", "mean_average_precision_at_r", "mean_average_precision"), k=k
    )
    calculator.get_accuracy(
        data.queries, data.query_labels, data.gallery, data.gallery_labels, ref_includes_query=is_one
    )


def by_hand(data, ks=(1, 2, 4, 8)):
    """The scores of `ours` from sorted float32 rows that are all held at once; every query must have a positive."""
    similarity = data.queries.numpy() @ data.gallery.numpy().T
    if data.gallery is data.queries:
        np.fill_diagonal(similarity, -2)
    order = np.argsort(-similarity, axis=1)[:, : -1 if data.gallery is data.queries else None]
    is_hit = data.gallery_labels.numpy()[order] == data.query_labels.numpy()[:, None]
    hits, rank, every = is_hit.cumsum(axis=1), np.arange(1, is_hit.shape[1] + 1), np.arange(len(is_hit))
    positives, first = hits[:, -1], is_hit.argmax(axis=1)
    precision, discount = hits / rank * is_hit, 1 / np.log2(rank + 1)
    scores = {f"recall@{k}": (first < k).mean() for k in ks}
    scores |= {f"precision@{k}": (hits[:, k - 1] / k).mean() for k in ks}
    scores["r_precision"] = (hits[every, positives - 1] / positives).mean()
    scores["map@r"] = ((precision * (rank <= positives[:, None])).sum(axis=1) / positives).mean()
    scores["ap"] = (precision.sum(axis=1) / positives).mean()
    scores["mrr"] = (1 / (1 + first)).mean()
    scores["ndcg"] = ((is_hit * discount).sum(axis=1) / discount.cumsum()[positives - 1]).mean()
    return scores


LONG = 10.0  # seconds
IN_MEMORY = ("small", "cub")
"""Sizes at which all similarities can be held and sorted at once."""
KMEANS = {"cub": "cub", "inshop": "in-shop", "sop": "sop"}

VARIANTS = {
    "bare blocked product": product,
    "unseen: all retrieval scores": ours,
    "faiss: top 1000 alone": faiss_1000,
    "NumPy: sorted rows": by_hand,
    "pytorch-metric-learning, k = 1000": lambda data: _accuracy(data, 1000),
    "pytorch-metric-learning, k = largest class": lambda data: _accuracy(data, "max_bin_count"),
}


def measure(size, rounds, names):
    """Multiples of the bare product that was measured just before, one number per round."""
    data, base, floor = make(size), next(iter(VARIANTS)), 0.0
    seconds: dict[str, list[float]] = {name: [] for name in names}
    multiples: dict[str, list[float]] = {name: [] for name in names}
    # Compiled loops are loaded: those for many positives per query as well.
    ours(data if size.points < 10_000 else Data(*(part[:2500] for part in data)))
    # A thousand points take milliseconds: more rounds, and nobody pays for the first use of a library.
    if size.points <= 1_000:
        rounds = max(rounds, 15)
        for name in names:
            VARIANTS[name](data)
    with progress_bar(f"{size.points:,} points", total=rounds * len(names)) as bar:
        for number in range(rounds):
            if number and floor >= LONG:
                break
            floor = 0.0
            for name in names:
                # A product that takes long is measured once: it hardly varies then.
                if floor < LONG:
                    floor = _seconds(VARIANTS[base], data)
                taken = floor if name == base else _seconds(VARIANTS[name], data)
                seconds[name].append(taken)
                multiples[name].append(taken / floor)
                bar.advance()
    return {name: (statistics.median(seconds[name]), statistics.median(multiples[name])) for name in names}


def _seconds(run, data):
    start = time.perf_counter()
    run(data)
    return time.perf_counter() - start


def peak(points, name):
    """MB beyond the embeddings at the peak of a process that does nothing else."""
    command = [sys.executable, "-m", "bench.evaluation", "--child", name, "--points", str(points)]
    done = subprocess.run(command, capture_output=True, text=True)
    return float(done.stdout.split()[-1]) if done.returncode == 0 else float("nan")


def child(name, points):
    size = next((size for size in SIZES.values() if size.points == points), scaled(points))
    ours(make(Size(2_500, 500, 2.5)))
    if name != "unseen: all retrieval scores":
        VARIANTS[name](make(Size(2_500, 500, 2.5)))
    data = make(size)
    # What making the data needed at its peak is not held any more; only what is held counts as before.
    held = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    Path("/proc/self/clear_refs").write_text("5")
    VARIANTS[name](data)
    high = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    print((int(high[0].split()[1]) * 1024 - held) / 1e6)


def scaled(points):
    return Size(points, max(2, points // 5), 2.5)


def machine():
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    processor = names[0].split(":", 1)[1].strip() if names else platform.machine()
    return (
        f"Measured {datetime.date.today().isoformat()} on {processor}, {torch.get_num_threads()} threads,"
        f" torch {torch.__version__}, Python {platform.python_version()};"
        f" load average {os.getloadavg()[0]:.1f} (about {torch.get_num_threads()} is this bench alone)."
    )


def draw(rows, path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4))
    for name in VARIANTS:
        points = [(row["points"], row["seconds"]) for row in rows if row["variant"] == name]
        if points:
            axes.loglog(*zip(*sorted(points), strict=True), marker="o", label=name)
    axes.set_xlabel("points (queries = gallery)")
    axes.set_ylabel("seconds")
    axes.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=150)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="CUB size alone, one round, no peak memory")
    parser.add_argument("--sizes", default="small,cub,inshop,sop")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--scaling", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--points", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    warnings.filterwarnings("ignore", category=DeprecationWarning)  # faiss's wrapper types
    if options.child:
        child(options.child, options.points)
        return
    if options.scaling:
        rows = _scaling()
        text, name = _markdown(rows), "evaluation-scaling"
    else:
        names = ["cub"] if options.quick else options.sizes.split(",")
        rows, clustered = _at_sizes(names, options)
        text = _markdown(rows) + ("\n" + kmeans.markdown(clustered, kmeans.RANK, options.threads) if clustered else "")
        name = "evaluation"
    print(text)
    if options.write:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{name}.md").write_text(text)
        with (RESULTS / f"{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        if options.scaling:
            draw(rows, RESULTS / f"{name}.png")


def _at_sizes(names, options):
    rows, clustered = [], []
    for name in names:
        variants = [variant for variant in VARIANTS if variant != "NumPy: sorted rows" or name in IN_MEMORY]
        found = measure(SIZES[name], 1 if options.quick else options.rounds, variants)
        for variant, (seconds, multiple) in found.items():
            memory = float("nan") if options.quick else peak(SIZES[name].points, variant)
            rows.append(_row(name, SIZES[name].points, variant, seconds, multiple, memory))
    for name in (name for name in names if name in KMEANS):
        clustered += kmeans.measure(KMEANS[name], kmeans.RANK, 1 if options.quick else None, options.threads)
    return rows, clustered


def _scaling():
    rows = []
    for points in (1_000, 3_000, 10_000, 30_000, 100_000, 200_000):
        # What others need beyond 30,000 points is more memory than they are worth.
        variants = list(VARIANTS) if points <= 30_000 else list(VARIANTS)[:2]
        for variant, (seconds, multiple) in measure(scaled(points), 1, variants).items():
            rows.append(_row("scaling", points, variant, seconds, multiple, float("nan")))
    return rows


def _row(size, points, variant, seconds, multiple, memory):
    return {
        "size": size,
        "points": points,
        "variant": variant,
        "seconds": round(seconds, 4),
        "times_product": round(multiple, 3),
        "peak_mb": round(memory, 1),
    }


def _verdicts(rows):
    """Ours as a multiple of the fastest other variant that computes scores, at each number of points."""
    words = []
    for points in dict.fromkeys(row["points"] for row in rows):
        seconds = {row["variant"]: row["seconds"] for row in rows if row["points"] == points}
        others = [taken for name, taken in seconds.items() if name.startswith(("NumPy", "pytorch"))]
        if others:
            words.append(f"{points:,} points: {seconds['unseen: all retrieval scores'] / min(others):.2f}")
    return f"Seconds of unseen as a multiple of the fastest other that gives scores: {'; '.join(words)}."


def _markdown(rows):
    lines = [
        "# All retrieval scores",
        "",
        f"Embeddings of {WIDTH} dimensions; multiples of the bare float32 product in square tiles of {SIDE}, measured"
        " just before each variant in one process; medians. Targets for unseen: 1.5 (cub), 1.3 (inshop), 0.6 (sop)"
        " times the product, at 1,000 points at most 1.2 times the fastest other that gives scores, and 500 MB beyond"
        f" the embeddings. {_verdicts(rows)}",
        "",
        "| size | points | variant | seconds | times the product | peak MB |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['size']} | {row['points']:,} | {row['variant']} | {row['seconds']} | {row['times_product']:.2f}"
        f" | {row['peak_mb']} |"
        for row in rows
    ]
    return "\n".join([*lines, "", machine(), ""])


if __name__ == "__main__":
    main()
