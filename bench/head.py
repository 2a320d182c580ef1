"""Speed of training a head on cached features: our loop, pytorch-metric-learning's, and the bare matrix products.

    python -m bench.head [--features some.npz] [--rounds 15] [--iterations 40] [--write]

One process, interleaved rounds, two threads; `--write` puts the table into bench/results/head.md.
The setting is that of Roth et al. (2020) on CUB: 5,864 x 1,280 features, a linear head of 512, margin loss (beta
1.2) with distance-weighted mining at one triplet per anchor, batches of 56 classes x 2, fused Adam.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from pytorch_metric_learning.losses import MarginLoss
from pytorch_metric_learning.miners import DistanceWeightedMiner
from pytorch_metric_learning.samplers import MPerClassSampler
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import unseen
from bench.measuring import RESULTS, machine, prepare_theirs
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
    """The same loop with that library's loss and miner, its miner held to one triplet per anchor."""
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


def plain_loop(make):
    """A round of a loop over batches that are ready in memory."""

    def prepare(features, labels):
        batches, iteration = make_batches(features, labels), make()

        def run(first, iterations):
            for number in range(first, first + iterations):
                iteration(number, batches[number % len(batches)])

        return run

    return prepare


def whole_loop(features, labels):
    """A round of `unseen train`: drawing, loading, schedule, guards and checks around the same step."""
    from unseen.data import Catalogue, CatalogueDataset, FeatureArray
    from unseen.methods import Objective
    from unseen.models import build_embedder
    from unseen.samplers import SamplesPerClass
    from unseen.training.loop import Job, train
    from unseen.training.optimizers import Adam
    from unseen.training.schedules import Constant

    numbers = labels.numpy()
    catalogue = Catalogue(
        name="bench",
        reader=FeatureArray(features.numpy()),
        labels=numbers,
        class_names=tuple(str(label) for label in range(CLASSES)),
        ids=tuple(str(row) for row in range(len(numbers))),
    )

    model = build_embedder("identity", input_shape=(WIDTH,), embedding_size=EMBEDDING)

    def run(first, iterations):
        dealt = SamplesPerClass(batch_size=CLASSES_IN_BATCH * PER_CLASS, per_class=PER_CLASS).batches(
            numbers, seed=first
        )
        dealt.batches_per_epoch = iterations
        job = Job(
            objective=Objective(model, unseen.losses.Margin(beta=1.2, miner=unseen.miners.DistanceWeighted())),
            optimizer=Adam(lr=LEARNING_RATE, weight_decay=0.0).build([{"params": list(model.parameters())}]),
            schedule=Constant(),
            items=CatalogueDataset(catalogue),
            indices=np.arange(len(numbers)),
            labels=numbers,
            batches=dealt,
            epochs=1,
            seed=first,
            config={},
        )
        train(job, Path(tempfile.gettempdir()) / "unseen-bench-no-checkpoint")

    return run


def their_whole_loop(features, labels):
    """A round of that library's own way: MPerClassSampler, a DataLoader, its loss and miner."""
    batch_size = CLASSES_IN_BATCH * PER_CLASS

    def run(first, iterations):
        head, optimizer = new_head()
        loss, miner = MarginLoss(margin=0.2, beta=1.2), DistanceWeightedMiner(cutoff=0.5, nonzero_loss_cutoff=1.4)
        sampler = MPerClassSampler(
            labels, m=PER_CLASS, batch_size=batch_size, length_before_new_iter=iterations * batch_size
        )
        for inputs, targets in DataLoader(TensorDataset(features, labels), batch_size=batch_size, sampler=sampler):
            embeddings = head(inputs)
            value = loss(embeddings, targets, miner(embeddings, targets))
            value.backward()
            optimizer.step()
            optimizer.zero_grad()

    return run


VARIANTS = {
    "bare matrix products + fused Adam (floor)": plain_loop(floor),
    "unseen: Margin + DistanceWeighted, plain loop": plain_loop(ours),
    "pytorch-metric-learning: MarginLoss + DistanceWeightedMiner, plain loop": plain_loop(pytorch_metric_learning),
    "unseen: the loop of `unseen train`, drawing and guards included": whole_loop,
    "pytorch-metric-learning: with MPerClassSampler and DataLoader": their_whole_loop,
}


def measure(features, labels, rounds, iterations):
    """Seconds per iteration of each variant, one number per round; the variants take turns."""
    running = {name: prepare(features, labels) for name, prepare in VARIANTS.items()}
    seconds: dict[str, list[float]] = {name: [] for name in VARIANTS}
    for run in running.values():  # warm up
        run(0, 10)
    for round_number in range(rounds):
        for name, run in running.items():
            start = time.perf_counter()
            run(round_number * iterations, iterations)
            seconds[name].append((time.perf_counter() - start) / iterations)
    return seconds


def table(seconds, source):
    """The result as Markdown."""
    base, own = list(VARIANTS)[:2]
    lines = [
        "# Training a head on cached features",
        "",
        f"{SAMPLES:,} x {WIDTH:,} features ({source}) -> {EMBEDDING}; margin loss, beta 1.2; distance-weighted mining,"
        f" one triplet per anchor; batch {CLASSES_IN_BATCH} x {PER_CLASS}; fused Adam. Medians over"
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--features", type=Path, help="npz with features and labels; random clusters without it")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--iterations", type=int, default=40)
    parser.add_argument("--write", action="store_true", help="write bench/results/head.md")
    options = parser.parse_args()
    torch.set_num_threads(2)
    torch.manual_seed(0)  # pytorch-metric-learning draws from torch's own generator
    prepare_theirs()
    features, labels = stored_features(options.features) if options.features else clustered_features()
    source = options.features.name if options.features else "random clusters"
    text = table(measure(features, labels, options.rounds, options.iterations), source)
    print(text)
    if options.write:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "head.md").write_text(text)


if __name__ == "__main__":
    main()
