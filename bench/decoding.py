"""From a JPEG file to a tensor: ours, ours without draft mode, and torchvision's two ways; and beside a network.

    python -m bench.decoding [--quick] [--seconds 20] [--threads 2] [--write]

Photographs are drawn: noise whose amplitude falls with its frequency, with the bytes per pixel of real ones. The first
table is the CPU time of one image, subjects taking turns. The second feeds EfficientNet-Lite0 (random weights) from
files, loaded between the batches or ahead by threads, beside the same network on tensors in memory.
`--write` puts both into bench/results/decoding.md.
"""

import argparse
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torchvision.transforms import v2

from bench.measuring import RESULTS, machine, taking_turns
from unseen.core.machine.memory import keep_freed_memory
from unseen.data import Batch, CatalogueDataset, Crop, evaluation_batches, folder
from unseen.data import batches as loading
from unseen.data.batches import ItemKey
from unseen.models.embedder import build_embedder

SIZES = ((341, 256), (500, 375), (1024, 768), (2048, 1536), (4000, 3000))
TARGETS = (160, 224)
SCALE_LOW = 0.2
BATCH = 32
OURS, FULL, TORCHVISION, TENSORS = "unseen", "draft=false", "torchvision on Pillow", "torchvision on tensors"
IN_MEMORY = "tensors in memory"
THREADS = {0: "loaded between batches", 1: "ahead by 1 thread", 2: "by 2 threads"}


class Cost(NamedTuple):
    """CPU milliseconds of one image by subject."""

    size: tuple[int, int]
    target: int
    use: str
    milliseconds: dict[str, float]


def photograph(size, seed):
    """Noise with an amplitude of about 1 / frequency, as photographs have."""
    width, height = size
    generator = np.random.default_rng(seed)
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None])
    frequency[0, 0] = 1
    colours = []
    for _ in range(3):
        spectrum = np.fft.rfft2(generator.normal(size=(height, width))) / frequency**1.1
        spectrum[0, 0] = 0
        channel = np.fft.irfft2(spectrum, (height, width))
        colours.append(channel / channel.std())
    grey = sum(colours) / np.sqrt(3)
    pixels = np.stack([0.9 * grey + 0.3 * colour for colour in colours], 2)
    return Image.fromarray((127 + 55 * pixels).clip(0, 255).astype(np.uint8))


def draw(root, size, count, classes=2):
    """Write `count` photographs of one size into folders of classes."""
    for number in range(count):
        target = root / str(number % classes) / f"{number}.jpg"
        target.parent.mkdir(parents=True, exist_ok=True)
        photograph(size, number).save(target, quality=90)
    return folder(str(root))


def torchvision_way(target, use, *, on_tensors):
    """torchvision's usual pipeline on Pillow's images, or on tensors of bytes, which its documentation recommends."""
    geometry = (
        [v2.RandomResizedCrop(target, scale=(SCALE_LOW, 1), antialias=True), v2.RandomHorizontalFlip()]
        if use == "training"
        else [v2.Resize(round(target * 256 / 224), antialias=True), v2.CenterCrop(target)]
    )
    scaling = [v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5] * 3, [0.5] * 3)]
    pipeline = v2.Compose([v2.ToImage(), *geometry, *scaling] if on_tensors else [*geometry, v2.ToImage(), *scaling])

    def load(path):
        with Image.open(path) as image:
            return pipeline(image.convert("RGB"))

    return load


def steps_for(catalogue, target, use):
    """Subject -> step: the tensor of one image, another one at every step."""
    paths = [catalogue.reader.path(index) for index in range(len(catalogue))]

    def ours(draft):
        crop = Crop(size=target, scale_low=SCALE_LOW, mean=(0.5,) * 3, std=(0.5,) * 3, draft=draft)
        items = CatalogueDataset(catalogue, crop)
        return lambda step: items[ItemKey(step % len(paths), step if use == "training" else None)]

    def theirs(load):
        return lambda step: load(paths[step % len(paths)])

    return {
        OURS: ours(draft=True),
        FULL: ours(draft=False),
        TORCHVISION: theirs(torchvision_way(target, use, on_tensors=False)),
        TENSORS: theirs(torchvision_way(target, use, on_tensors=True)),
    }


def costs(catalogues, seconds):
    """Measure every size, target and use; one thread."""
    cases = [(size, target, use) for size in catalogues for target in TARGETS for use in ("evaluation", "training")]
    measured = []
    for size, target, use in cases:
        steps = steps_for(catalogues[size], target, use)
        times = taking_turns(steps, budget=seconds / len(cases), sample=0.02, least=3)
        measured.append(Cost(size, target, use, {name: 1e3 * each.cpu_minimum for name, each in times.items()}))
        print(measured[-1], flush=True)
    return measured


class Held:
    """Batches in memory: what the network does when nothing makes it wait."""

    def __init__(self, target):
        self.inputs = torch.randn(BATCH, 3, target, target).contiguous(memory_format=torch.channels_last)

    def __len__(self):
        return BATCH

    def __getitems__(self, keys):
        positions = torch.arange(len(keys))
        return Batch(self.inputs[: len(keys)], positions, positions)


def beside_the_network(catalogues, target, images, rounds):
    """Images per second of the network on tensors, and on files loaded by so many threads ahead of it."""
    network = build_embedder("tf_efficientnet_lite0", input_shape=(3, target, target), embedding_size=None)
    network.eval().to(memory_format=torch.channels_last)
    subjects: dict[tuple[str, int], Any] = {(IN_MEMORY, 0): Held(target)}
    for size, catalogue in catalogues.items():
        items = CatalogueDataset(catalogue, Crop(size=target))
        subjects |= {(f"{size[0]} x {size[1]}", threads): items for threads in THREADS}
    best = dict.fromkeys(subjects, 0.0)
    for _ in range(rounds):
        for (name, threads), items in subjects.items():
            best[name, threads] = max(best[name, threads], images / run(network, items, images, threads))
    return best


def run(network, items, images, threads):
    """Seconds for this many images."""
    keys = evaluation_batches(np.arange(images) % len(items), BATCH)
    start = time.perf_counter()
    with torch.inference_mode():
        for batch in loading.ThreadLoader(items, keys, threads):
            network(batch.inputs)
    return time.perf_counter() - start


def markdown(measured, speeds):
    """Both tables as Markdown."""
    names = list(measured[0].milliseconds)
    lines = [
        "# From a JPEG file to a tensor",
        "",
        "CPU milliseconds of one image on one core: reading, decoding, cropping, resizing, normalising; the least over"
        f" rounds in which the subjects take turns. Training crops cover {SCALE_LOW:.0%} of the image or more. In"
        " brackets times ours. Drawn photographs, JPEG quality 90. Where no reduction applies, ours and draft=false are"
        " the same, to the bit what torchvision computes on Pillow; its resize on tensors is another algorithm, which"
        " differs by one level in one pixel of a thousand.",
        "",
        f"| photograph | input | use | {' | '.join(names)} | images per second and core |",
        f"|---|---|---|{'---|' * len(names)}---|",
    ]
    for size, target, use, milliseconds in measured:
        ours = milliseconds[OURS]
        cells = [f"{ours:.2f}"]
        cells += [f"{value:.2f} ({value / ours:.2f})" for name, value in milliseconds.items() if name != OURS]
        lines.append(f"| {size[0]} x {size[1]} | {target} | {use} | {' | '.join(cells)} | {1e3 / ours:,.0f} |")
    lines += ["", "Images per second of EfficientNet-Lite0 (the best of the rounds), in brackets of tensors in memory:"]
    for target, best in speeds.items():
        alone = best[IN_MEMORY, 0]
        lines += [
            "",
            f"| files, at {target} pixels | {' | '.join(THREADS.values())} |",
            f"|---|{'---|' * len(THREADS)}",
        ]
        for subject in dict.fromkeys(subject for subject, _ in best):
            speeds_of = [best.get((subject, threads)) for threads in THREADS]
            cells = ["" if speed is None else f"{speed:,.0f} ({speed / alone:.2f})" for speed in speeds_of]
            lines.append(f"| {subject} | {' | '.join(cells)} |")
    lines += ["", f"The loader's own choice here: {loading.loader_threads()} thread(s). {machine()}"]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="two sizes and few images")
    parser.add_argument("--seconds", type=float, default=60, help="of the first table")
    parser.add_argument("--images", type=int, default=256, help="of a round of the second table")
    parser.add_argument("--rounds", type=int, default=3, help="of the second table")
    parser.add_argument("--threads", type=int, default=2, help="of torch, in the second table")
    parser.add_argument("--write", action="store_true", help="write bench/results/decoding.md")
    options = parser.parse_args()
    keep_freed_memory()
    sizes = SIZES[:2] if options.quick else SIZES
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        catalogues = {size: draw(root / f"{size[0]}", size, 4 if size[0] > 2000 else 16) for size in sizes}
        for size, catalogue in catalogues.items():
            print(f"{size}: {catalogue.reader.sizes.mean() / (size[0] * size[1]):.2f} bytes per pixel", flush=True)
        torch.set_num_threads(1)
        measured = costs(catalogues, 2 if options.quick else options.seconds)
        torch.set_num_threads(options.threads)
        images = BATCH if options.quick else options.images
        measure = partial(beside_the_network, catalogues, images=images, rounds=1 if options.quick else options.rounds)
        speeds = {target: measure(target) for target in (TARGETS[:1] if options.quick else TARGETS)}
    text = markdown(measured, speeds)
    print(text)
    if options.write:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "decoding.md").write_text(text)


if __name__ == "__main__":
    main()
