"""Speed of training a head on cached features: our loop, pytorch-metric-learning's, and the bare matrix products.

    python bench/head.py [--features some.npz] [--rounds 15] [--iterations 40] [--write]

One process, interleaved rounds, two threads; `--write` puts the table into bench/results/head.md.
The setting is that of R's protocol on CUB: 5,864 x 1,280 features, a linear head of 512, margin loss (beta 1.2) with
distance-weighted mining at one triplet an anchor, batches of 56 classes x 2, fused Adam.
"""

import argparse
import datetime
import platform
import statistics
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from pytorch_metric_learning.losses import MarginLoss
from pytorch_metric_learning.miners import DistanceWeightedMiner
from pytorch_metric_learning.utils import loss_and_miner_utils
from torch import nn

import unseen
from unseen.core.randomness import derive, numpy_generator, torch_generator

SAMPLES, CLASSES, WIDTH, EMBEDDING = 5864, 100, 1280, 512
CLASSES_IN_BATCH, PER_CLASS = 56, 2
LEARNING_RATE = 1e-5


class Batch(NamedTuple):
    """Features and labels of one batch."""

    features: torch.Tensor
    labels: torch.Tensor


def clustered_features():
    generator = torch_generator(derive(0, "bench features"))
    labels = torch.arange(SAMPLES) % CLASSES
    centres = torch.randn(CLASSES, WIDTH, generator=generator)
    # ReLU features, as pooled activations are.
    return (centres[labels] + 1.5 * torch.randn(SAMPLES, WIDTH, generator=generator)).relu(), labels


def stored_features(path):
    with np.load(path, allow_pickle=False) as file:
        features, labels = torch.from_numpy(file["features"]).float(), torch.from_numpy(file["labels"]).long()
    keep = labels < CLASSES
    return features[keep], labels[keep]


def make_batches(features, labels, count=64):
    generator = numpy_generator(derive(0, "bench batches"))
    batches = []
    for _ in range(count):
        classes = generator.choice(len(labels.unique()), CLASSES_IN_BATCH, replace=False)
        rows = np.concatenate(
            [generator.choice(np.flatnonzero(labels.numpy() == c), PER_CLASS, replace=False) for c in classes]
        )
        batches.append(Batch(features[rows].contiguous(), labels[rows].contiguous()))
    return batches


def new_head():
    head = nn.Linear(WIDTH, EMBEDDING)
    with torch.no_grad():
        head.weight.copy_(torch.randn(EMBEDDING, WIDTH, generator=torch_generator(1)) / WIDTH**0.5)
        head.bias.zero_()
    return head, torch.optim.Adam(head.parameters(), lr=LEARNING_RATE, fused=True)


def ours():
    """Our loss and miner in the plain loop."""
    head, optimizer = new_head()
    loss = unseen.losses.Margin(beta=1.2, miner=unseen.miners.DistanceWeighted())

    def iteration(number, batch):
        value = loss(head(batch.features), batch.labels, key=number)
        value.backward()
        optimizer.step()
        optimizer.zero_grad()

    return iteration


def pytorch_metric_learning():
    """The same loop with that library's loss and miner, its miner held to one triplet an anchor."""
    head, optimizer = new_head()
    loss, miner = MarginLoss(margin=0.2, beta=1.2), DistanceWeightedMiner(cutoff=0.5, nonzero_loss_cutoff=1.4)

    def iteration(number, batch):
        embeddings = head(batch.features)
        value = loss(embeddings, batch.labels, miner(embeddings, batch.labels))
        value.backward()
        optimizer.step()
        optimizer.zero_grad()

    return iteration


def floor():
    """The matrix products of head and similarity, forward and backward, and the optimiser's step."""
    head, optimizer = new_head()
    gradient = torch.full((CLASSES_IN_BATCH * PER_CLASS,) * 2, 1e-4)

    def iteration(number, batch):
        embeddings = head(batch.features)
        (embeddings @ embeddings.T).backward(gradient)
        optimizer.step()
        optimizer.zero_grad()

    return iteration


# The training loop of `unseen.training` joins here: a function without arguments that gives `iteration(number, batch)`.
VARIANTS = {
    "bare matrix products + fused Adam (floor)": floor,
    "unseen: Margin + DistanceWeighted, plain loop": ours,
    "pytorch-metric-learning: MarginLoss + DistanceWeightedMiner": pytorch_metric_learning,
}


def measure(batches, rounds, iterations):
    """Seconds per iteration of each variant, one number a round; the variants take turns."""
    running = {name: make() for name, make in VARIANTS.items()}
    seconds = {name: [] for name in VARIANTS}
    for iteration in running.values():  # warm up
        for number in range(10):
            iteration(number, batches[number % len(batches)])
    for round_number in range(rounds):
        for name, iteration in running.items():
            start = time.perf_counter()
            for number in range(iterations):
                iteration(round_number * iterations + number, batches[number % len(batches)])
            seconds[name].append((time.perf_counter() - start) / iterations)
    return seconds


def table(seconds, source):
    """The result as Markdown."""
    base, own = list(VARIANTS)[:2]
    lines = [
        "# Training a head on cached features",
        "",
        f"{SAMPLES:,} x {WIDTH:,} features ({source}) -> {EMBEDDING}; margin loss, beta 1.2; distance-weighted mining,"
        f" one triplet an anchor; batch {CLASSES_IN_BATCH} x {PER_CLASS}; fused Adam. Medians over"
        f" {len(seconds[base])} interleaved rounds of one process; ratios are medians of the rounds' own ratios.",
        "",
        "| loop | iterations/s | ms | times the floor | times ours |",
        "|---|---|---|---|---|",
    ]
    for name, values in seconds.items():
        middle = statistics.median(values)
        to_floor = statistics.median(a / b for a, b in zip(values, seconds[base], strict=True))
        to_own = statistics.median(a / b for a, b in zip(values, seconds[own], strict=True))
        lines.append(f"| {name} | {1 / middle:.0f} | {middle * 1e3:.2f} | {to_floor:.2f} | {to_own:.2f} |")
    lines += [
        "",
        f"Targets: ours at most 2 times the floor, pytorch-metric-learning at least 6 times ours. {machine()}",
    ]
    return "\n".join(lines) + "\n"


def machine():
    processor = platform.processor() or platform.machine()
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    processor = names[0].split(":", 1)[1].strip() if names else processor
    return (
        f"Measured {datetime.date.today().isoformat()} on {processor}, {torch.get_num_threads()} threads,"
        f" torch {torch.__version__}, Python {platform.python_version()}."
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--features", type=Path, help="npz with features and labels; random clusters without it")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--iterations", type=int, default=40)
    parser.add_argument("--write", action="store_true", help="write bench/results/head.md")
    options = parser.parse_args()
    torch.set_num_threads(2)
    torch.manual_seed(0)  # pytorch-metric-learning draws from torch's own generator
    # Its miner takes no such setting; by itself it draws as many triplets an anchor as its class has samples.
    loss_and_miner_utils.get_random_triplet_indices = partial(
        loss_and_miner_utils.get_random_triplet_indices, t_per_anchor=1
    )
    features, labels = stored_features(options.features) if options.features else clustered_features()
    source = options.features.name if options.features else "random clusters"
    text = table(measure(make_batches(features, labels), options.rounds, options.iterations), source)
    print(text)
    if options.write:
        target = Path(__file__).parent / "results" / "head.md"
        target.parent.mkdir(exist_ok=True)
        target.write_text(text)


if __name__ == "__main__":
    main()
