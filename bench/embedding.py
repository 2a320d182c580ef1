"""Embedding image files: our engines beside what they replaced and beside bare runtimes on tensors in memory.

    python -m bench.embedding [--data FOLDER] [--seconds 8] [--rounds 2] [--models a,b] [--sizes 160,224] [--write]

Each subject runs in a process of its own, as what the allocator did for one would be the next one's gain; the subjects
take turns. The clock starts after the first batch of each and ends with the batch during which `--seconds` pass:
imports, folding and conversion are a column of their own. The whole takes about 12 minutes a round.
"before" is a transcription of what `unseen embed` did until the engine: batches of 256, decoded one after the other
between the batches, memory returned to the kernel. `--data` names a folder with one sub-folder of JPEG files per class;
without it 400 files are drawn. `--write` puts the tables into bench/results/embedding.md.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from bench.measuring import RESULTS, machine
from bench.pipeline import draw_files
from unseen.core.machine.memory import keep_freed_memory
from unseen.data import Crop, ImageFiles, evaluation_batches
from unseen.data.batches import CatalogueDataset
from unseen.data.sources.folder import folder
from unseen.models import Engine, build_embedder, to_onnx
from unseen.models.engine import CPU, rows_per_step
from unseen.models.onnx_graph import INPUT

MODELS = ("tf_efficientnet_lite0", "resnet50", "vit_small_patch16_224")
SIZES = (160, 224)
EMBEDDING = 512
BEFORE, TORCH, ONNX = "before", "engine torch", "engine onnx"
BARE_TORCH, BARE_ONNX, BARE_OPENVINO = "bare torch, channels_last", "bare ONNX Runtime", "bare OpenVINO"
BATCH_BEFORE = 256
CLASSES, FILES_OF_A_CLASS = 20, 20
FASTER_THAN_BEFORE, OF_BARE_ONNX = 5.0, 0.85
IMAGES_OF_GROWTH = (512, 2048)
UNLIMITED = 1e9  # seconds
MOST_IMAGES = 20_000


class Case(NamedTuple):
    """What a subject embeds, until the images or the seconds end."""

    model: str
    size: int
    data: str
    images: int
    seconds: float


class Cost(NamedTuple):
    """One process: seconds before the clock started, then images per second and processor ms per image; peak MB."""

    ready_seconds: float
    images_per_second: float
    cpu_ms: float
    peak_mb: float


def new_model(case):
    return build_embedder(case.model, input_shape=(3, case.size, case.size), embedding_size=EMBEDDING)


def indices_of(case, items):
    return np.arange(case.images) % len(items)


def before(case):
    """Each batch's outputs as they were computed until the engine."""
    from torchvision.transforms.v2 import functional

    reader = folder(case.data).reader
    assert isinstance(reader, ImageFiles)
    model = new_model(case).to(memory_format=torch.contiguous_format).eval()
    values = torch.arange(256, dtype=torch.uint8).repeat(3, 1, 1)
    scaled = functional.to_dtype(values, torch.float32, scale=True)
    table = functional.normalize(scaled, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]).squeeze(1).numpy()

    def load(index):
        reader.verify(index)
        image = functional.resize(reader.image(index), [round(case.size * 256 / 224)])
        pixels = np.asarray(functional.center_crop(image, [case.size, case.size]))
        tensor = np.empty((3, *pixels.shape[:2]), np.float32)
        for channel in range(3):
            np.take(table[channel], pixels[:, :, channel], out=tensor[channel], mode="clip")
        return torch.from_numpy(tensor)

    indices = indices_of(case, reader)
    with torch.inference_mode():
        for start in range(0, len(indices), BATCH_BEFORE):
            yield model(torch.stack([load(index) for index in indices[start : start + BATCH_BEFORE]]))


def by_engine(case, name):
    """Each batch's outputs by an engine of ours, from files."""
    items = CatalogueDataset(folder(case.data), Crop(size=case.size))
    batches = evaluation_batches(indices_of(case, items), rows_per_step((3, case.size, case.size), CPU))
    return Engine(new_model(case), name).rows(items, batches)


def batch_in_memory(case):
    rows = rows_per_step((3, case.size, case.size), CPU)
    return torch.randn(rows, 3, case.size, case.size, generator=torch.Generator().manual_seed(0)), case.images // rows


def bare_torch(case):
    keep_freed_memory()
    model = new_model(case).eval().to(memory_format=torch.channels_last)
    batch, count = batch_in_memory(case)
    batch = batch.contiguous(memory_format=torch.channels_last)
    with torch.inference_mode():
        for _ in range(count):
            yield model(batch)


def bare_onnx(case):
    import onnxruntime

    batch, count = batch_in_memory(case)
    session = onnxruntime.InferenceSession(to_onnx(new_model(case), batch), providers=["CPUExecutionProvider"])
    for _ in range(count):
        yield session.run(None, {INPUT: batch.numpy()})[0]


def bare_openvino(case):
    import openvino

    batch, count = batch_in_memory(case)
    model = openvino.Core().read_model(to_onnx(new_model(case), batch))
    compiled = openvino.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    for _ in range(count):
        yield compiled([batch.numpy()])[0]


SUBJECTS = {
    BEFORE: before,
    TORCH: lambda case: by_engine(case, "torch"),
    ONNX: lambda case: by_engine(case, "onnx"),
    BARE_TORCH: bare_torch,
    BARE_ONNX: bare_onnx,
    BARE_OPENVINO: bare_openvino,
}


def clocked(batches, began, limit):
    """The cost of a stream of outputs, as far as the limit in seconds; its first batch is not counted."""
    next(batches)
    wall, cpu, images = time.perf_counter(), time.process_time(), 0
    for outputs in batches:
        images += len(outputs)
        if time.perf_counter() - wall >= limit:
            break
    seconds, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Cost(wall - began, images / seconds, 1e3 * cpu / images, peak)


def in_a_process(subject, case):
    """The cost of a subject in a fresh process, or None if what it needs is not installed."""
    command = [sys.executable, "-m", "bench.embedding", "--only", json.dumps([subject, *case])]
    child = subprocess.run(command, capture_output=True, text=True)
    if "ModuleNotFoundError: No module named 'openvino'" in child.stderr:
        return None
    if child.returncode:
        raise SystemExit(child.stderr)
    return Cost(*json.loads(child.stdout.splitlines()[-1]))


def measure(case, rounds):
    """Subject -> its median costs; the subjects take turns, each going first in its turn."""
    costs = defaultdict(list)
    names = list(SUBJECTS)
    for number in range(rounds):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            cost = in_a_process(name, case)
            if cost is not None:
                costs[name].append(cost)
    return {name: median(costs[name]) for name in names if name in costs}


def median(costs):
    return Cost(*map(statistics.median, zip(*costs, strict=True)))


def growth(case):
    """Subject -> MB by which the peak grows when four times as many images are embedded."""
    few, many = (case._replace(images=images, seconds=UNLIMITED) for images in IMAGES_OF_GROWTH)
    return {name: in_a_process(name, many).peak_mb - in_a_process(name, few).peak_mb for name in (TORCH, ONNX)}


def table(results, grown, *, source, rounds):
    """The result as Markdown: `results` is a list of (case, costs by subject)."""
    lines = [
        "# Embedding images",
        "",
        f"Embeddings of {EMBEDDING} numbers by networks with random weights, from {source}; bare runtimes take tensors"
        f" in memory, in batches as the engine's. Median of {rounds} interleaved rounds, each subject in a process of"
        f" its own, {results[0][0].seconds:g} seconds and the batch in progress after them.",
        "",
        "| network | pixels | subject | images per second | times before | times bare ONNX Runtime |"
        " processor ms per image | peak MB | ready after s |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for case, costs in results:
        for name, cost in costs.items():
            lines.append(
                f"| {case.model} | {case.size} | {name} | {cost.images_per_second:.0f} |"
                f" {cost.images_per_second / costs[BEFORE].images_per_second:.2f} |"
                f" {cost.images_per_second / costs[BARE_ONNX].images_per_second:.2f} |"
                f" {cost.cpu_ms:.1f} | {cost.peak_mb:,.0f} | {cost.ready_seconds:.1f} |"
            )
    lines += ["", *targets(results)]
    for name, difference in grown.items():
        few, many = IMAGES_OF_GROWTH
        lines.append(f"- {name}: {many:,} images instead of {few:,} add {difference:,.0f} MB to the peak.")
    return "\n".join([*lines, "", machine()]) + "\n"


def targets(results):
    """A line for each target and network: what was asked for, and what was measured."""
    lines = []
    for case, costs in results:
        speed = {name: cost.images_per_second for name, cost in costs.items()}
        gain, share = speed[TORCH] / speed[BEFORE], speed[ONNX] / speed[BARE_ONNX]
        parts = [
            f"engine onnx {share:.2f} of bare ONNX Runtime (target {OF_BARE_ONNX}, {verdict(share >= OF_BARE_ONNX)})"
        ]
        if case.size == SIZES[0]:
            met = verdict(gain >= FASTER_THAN_BEFORE)
            parts.insert(0, f"engine torch {gain:.2f} times before (target {FASTER_THAN_BEFORE:.0f}, {met})")
        lines.append(f"- {case.model} at {case.size}: {'; '.join(parts)}.")
    return lines


def verdict(is_met):
    return "met" if is_met else "missed"


@contextmanager
def image_folder(given):
    """A folder of images and its name: the given one, or a temporary one with drawn images."""
    if given is not None:
        yield given, f"the images of `{given.parent.name}/{given.name}`"
        return
    with tempfile.TemporaryDirectory() as made:
        draw_files(Path(made), CLASSES, FILES_OF_A_CLASS)
        yield Path(made), f"{CLASSES * FILES_OF_A_CLASS:,} drawn JPEG files with a shorter side of 256 pixels"


def main():
    began = time.perf_counter()
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="a folder with a sub-folder of images per class; drawn if not given")
    parser.add_argument("--seconds", type=float, default=8, help="of a process, after its first batch")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--write", action="store_true", help="write bench/results/embedding.md")
    parser.add_argument("--only", help=argparse.SUPPRESS)  # a subject and its case, in a process of its own
    options = parser.parse_args()
    if options.only:
        subject, *fields = json.loads(options.only)
        case = Case(*fields)
        print(json.dumps(clocked(SUBJECTS[subject](case), began, case.seconds)))
        return
    with image_folder(options.data) as (root, source):
        cases = [
            Case(model, int(size), str(root), MOST_IMAGES, options.seconds)
            for model in options.models.split(",")
            for size in options.sizes.split(",")
        ]
        results = [(case, measure(case, options.rounds)) for case in cases]
        text = table(results, growth(cases[0]), source=source, rounds=options.rounds)
    print(text)
    if options.write:
        (RESULTS / "embedding.md").write_text(text)


if __name__ == "__main__":
    main()
