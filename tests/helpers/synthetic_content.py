"""Made-up content for report tests: 2 splits x (4 methods and an untrained network x 2 seeds, and raw pixels)."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import matplotlib
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from unseen.core.randomness import derive, numpy_generator
from unseen.evaluation.report_sample import ReportSample
from unseen.studies.results.content import Content, FailedCell, Row

SCRIPTS = {
    "characters": {"Latin": "abdefghkmnqrtyRGQ", "Greek": "αβγδζηθλξπ", "Cyrillic": "бгджлфцщюяЖ"},
    "scripts": {"Armenian": "աբգդեզէըթժիլխծ", "Georgian": "აბგდევზთიკლმნ"},
}
METHODS = {"multi-similarity": 0.525, "margin, distance-weighted": 0.508, "proxy-anchor": 0.497, "contrastive": 0.461}
UNTRAINED = {"untrained network": 0.327, "raw pixels": 0.312}
SCORES = {
    "recall@1": "Share of queries whose nearest other item has their class.",
    "recall@2": "Share of queries with an item of their class among the two nearest.",
    "recall@4": "Share of queries with an item of their class among the four nearest.",
    "recall@8": "Share of queries with an item of their class among the eight nearest.",
    "precision@10": "Mean share of the ten nearest items that have the class of the query.",
    "map@r": "Mean over queries of the average precision among the R nearest, R being the number of positives.",
    "map@1000": "Mean average precision among the thousand nearest.",
    "nmi": "Normalised mutual information of k-means clusters with classes.",
    "f1": "Pairwise F1 of k-means clusters with classes.",
}


@cache
def _letters(split, fonts, size=32):
    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    names = [name for name in sorted(folder.glob("DejaVu*.ttf")) if "Display" not in name.name]
    generator = numpy_generator(derive(0, "letters"))
    images, classes, groups = [], [], []
    for script, letters in SCRIPTS[split].items():
        for letter in letters:
            for index in range(fonts):
                font = ImageFont.truetype(names[index % len(names)], 22)
                image = Image.new("L", (size, size), 255)
                where = (size / 2 + generator.uniform(-2, 2), size / 2 + generator.uniform(-2, 2))
                ImageDraw.Draw(image).text(where, letter, fill=0, font=font, anchor="mm")
                image = image.rotate(generator.uniform(-12, 12), fillcolor=255, resample=Image.Resampling.BILINEAR)
                images.append(np.asarray(image))
                classes.append(letter)
                groups.append(script)
    return np.stack(images), np.array(classes), np.array(groups)


def make_sample(split, *, noise, fonts=6, queries=8, neighbours=8, dimensions=32):
    images, classes, groups = _letters(split, fonts)
    generator = numpy_generator(derive(1, f"shown/{split}"))
    names, labels = np.unique(classes, return_inverse=True)
    centres = generator.normal(size=(len(names), dimensions))
    embeddings = centres[labels] + noise * generator.normal(size=(len(labels), dimensions))
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    ids = np.array([f"U+{ord(letter):04X} face {index % fonts}" for index, letter in enumerate(classes)])
    asked = np.linspace(0, len(ids) - 1, queries).astype(int)
    similarity = embeddings[asked] @ embeddings.T
    similarity[np.arange(queries), asked] = -2
    order = np.argsort(-similarity, axis=1)[:, :neighbours]
    return ReportSample(
        map_embeddings=embeddings.astype(np.float32),
        map_labels=labels,
        map_classes=classes,
        map_groups=groups,
        map_thumbnails=images,
        query_names=ids[asked],
        query_classes=classes[asked],
        query_thumbnails=images[asked],
        neighbour_names=ids[order],
        neighbour_classes=classes[order],
        neighbour_thumbnails=images[order],
        neighbour_right=classes[order] == classes[asked][:, None],
        neighbour_similarity=np.take_along_axis(similarity, order, axis=1),
    )


def make_row(split, method, seed, *, is_trained=True, epochs=8, sample=None):
    generator = numpy_generator(derive(seed, f"row/{split}/{method}"))
    lost = {"characters": 0.0, "scripts": 0.085 if is_trained else 0.015}[split]
    main = (METHODS | UNTRAINED)[method] - lost + 0.012 * float(generator.normal())
    factors = (1, 1.22, 1.4, 1.6, 0.6, 0.42, 0.46, 1.5, 0.5)
    scores = {name: min(0.98, main * factor) for name, factor in zip(SCORES, factors, strict=True)}
    history = [
        {
            "epoch": epoch,
            "step": 100 * epoch,
            "loss": (3.0 if "proxy" in method else 0.6) * (0.35 + np.exp(-epoch / 3))
            + 0.01 * float(generator.normal()),
            "validation": {"recall@1": main + 0.04 - 0.18 * np.exp(-epoch / 2.2) + 0.006 * float(generator.normal())},
            "seconds": 1.7,
        }
        for epoch in range(1, epochs + 1)
    ]
    protocol = {
        "data": {"name": "glyphs", "size": 32, "fingerprint": "5f0c19aa03be77d1"},
        "split": {
            "name": split,
            "fingerprint": {"characters": "a1", "scripts": "b2"}[split],
            "classes": {"train": 640, "test": 400},
        },
        "seed": seed,
        "checkpoint": "best epoch by validation recall@1 on held-out classes",
    }
    if is_trained:
        protocol |= {
            "loss": {"name": method, "margin": 0.2},
            "backbone": "convnet, 3 layers",
            "embedding size": 128,
            "batch": {"size": 128, "per class": 4},
            "optimiser": {"name": "adam", "learning rate": 0.001},
            "epochs": epochs,
        }
    return Row(
        data="glyphs",
        split=split,
        method=method,
        seed=seed,
        is_trained=is_trained,
        scores=scores,
        counts={"queries": 4800, "classes": 400, "gallery": 4800, "queries without positives": 0},
        definitions=SCORES,
        history=history if is_trained else [],
        protocol=protocol,
        seconds=14.5 if is_trained else 1.2,
        sample=sample,
    )


def make_content(*, fonts=6, queries=8, seeds=(0, 1), failed=True):
    rows = []
    for split in SCRIPTS:
        for method in METHODS:
            for seed in seeds:
                sample = make_sample(split, noise=1.5, fonts=fonts, queries=queries) if seed == seeds[0] else None
                rows.append(make_row(split, method, seed, sample=sample))
        rows.extend(
            make_row(
                split,
                "untrained network",
                seed,
                is_trained=False,
                sample=make_sample(split, noise=2.6, fonts=fonts, queries=queries) if seed == seeds[0] else None,
            )
            for seed in seeds
        )
        rows.append(make_row(split, "raw pixels", 0, is_trained=False))
    return Content(
        title="Letters never seen before",
        description="A small study on letters: a class is a character, its samples are typefaces.",
        version="0.1.0",
        rows=rows,
        failed=[
            FailedCell(
                labels=("glyphs", "scripts", "contrastive", "seed 2"),
                sentence="the loss stopped being finite at step 312",
            )
        ]
        if failed
        else [],
        split_descriptions={
            "characters": "characters never seen in training",
            "scripts": "whole scripts never seen in training",
        },
    )


def change_rows(content, **changes):
    """The content with the same changes made to every row."""
    return replace(content, rows=[replace(row, **changes) for row in content.rows])
