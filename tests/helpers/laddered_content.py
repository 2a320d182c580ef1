"""Made-up content of studies over a ladder and over pairs of data sets, and made-up stores of them."""

import itertools
import math

from unseen.core.randomness import derive, numpy_generator
from unseen.studies.results.content import Content, Row

DISTANCES = (19.2, 28.5, 52.6, 72.2, 92.5, 120.4, 136.5, 152.0, 173.9)
STEPS = ("-20", "-10", "0", "6", "10", "30", "R22", "R48", "R66")
METHODS = {
    "margin": 0.70,
    "multi-similarity": 0.72,
    "triplet": 0.66,
    "softmax": 0.69,
    "ArcFace": 0.68,
    "R-margin": 0.73,
}
STRUCTURE = ("rho", "intra_inter", "uniformity")


def rung_row(method, seed, rung, *, is_trained=True, data="birds", ladder="5f0c19aa03be77d1", model="lite0", **changes):
    """A row of a method on a rung (from 0); its score falls with the distance, a little by chance."""
    generator = numpy_generator(derive(seed, f"{method}/{rung}/{model}"))
    start = METHODS.get(method, 0.6)
    steepness = 0.0016 + 0.0012 * numpy_generator(derive(0, method)).random() if is_trained else 0.0012
    recall = start - steepness * DISTANCES[rung] + 0.01 * float(generator.normal()) + (0.05 if model == "resnet" else 0)
    scores = {
        "recall@1": recall,
        "map@r": 0.4 * recall,
        "rho": 0.5 - 0.6 * recall + 0.01 * float(generator.normal()),
        "intra_inter": 1.2 - recall + 0.05 * float(generator.normal()),
        "uniformity": -2.0 - recall,
    }
    values = {
        "data": data,
        "split": f"rung {rung + 1}",
        "method": method,
        "seed": seed,
        "is_trained": is_trained,
        "scores": scores,
        "intervals": {name: (value - 0.025, value + 0.024) for name, value in scores.items()},
        "counts": {"queries": 5924, "classes": 100},
        "protocol": {
            "split": {
                "name": "ladder",
                "rung": rung + 1,
                "ladder": ladder,
                "step": STEPS[rung],
                "class_distance": DISTANCES[rung],
                "sample_distance": DISTANCES[rung] / 2 + 3,
            },
            "model": {"name": model},
            "loss": {"name": method} if is_trained else None,
            "method": {"name": "plain"} if is_trained else None,
            "epochs": 10 if is_trained else 0,
        },
    }
    return Row(**(values | changes))


def ladder_content(rungs=range(9), methods=tuple(METHODS), seeds=(0, 1, 2), untrained=True, **changes):
    """A study over a ladder: every method on every rung with every seed, and untrained features with one."""
    rows = [rung_row(method, seed, rung) for seed in seeds for rung in rungs for method in methods]
    if untrained:
        rows += [rung_row("untrained features", 0, rung, is_trained=False) for rung in rungs]
    values = {
        "title": "Losses over a ladder",
        "version": "0.1.0",
        "rows": rows,
        "not_shares": STRUCTURE,
        "lower_is_better": STRUCTURE,
        "structure_scores": STRUCTURE,
        "retrieval_scores": ("recall@1", "map@r"),
    }
    return Content(**(values | changes))


def without(content, drop):
    """The content without the rows for which `drop` says yes."""
    return Content(**{**vars(content), "rows": [row for row in content.rows if not drop(row)]})


def transfer_content(parts=("birds", "cars", "products"), methods=("margin", "softmax"), seeds=(0, 1), **changes):
    """A study over all ordered pairs of some data sets."""
    rows = []
    for one in parts:
        for other in parts:
            for method in (*methods, "untrained features"):
                is_trained = method in methods
                for seed in seeds if is_trained else (0,):
                    ease = 0.5 + 0.1 * parts.index(other)
                    gain = (0.08 if one == other else -0.02) if is_trained else 0.0
                    noise = 0.004 * float(numpy_generator(derive(seed, method)).normal()) if is_trained else 0.0
                    split = {"name": "domains", "train_on": one, "test_on": other}
                    rows.append(
                        Row(
                            data="all three",
                            split=f"from {one} to {other}",
                            method=method,
                            seed=seed,
                            is_trained=is_trained,
                            scores={"recall@1": ease + gain + noise},
                            protocol={"split": split, "epochs": 10 if is_trained else 0},
                        )
                    )
    return Content(**({"title": "Across domains", "version": "0.1.0", "rows": rows} | changes))


def slow_area(distances, values):
    """The area under straight lines between points, over distances scaled to [0, 1], by a loop."""
    pairs = sorted(zip(distances, values, strict=True))
    near, far = pairs[0][0], pairs[-1][0]
    area = 0.0
    for (x0, y0), (x1, y1) in itertools.pairwise(pairs):
        area += (x1 - x0) / (far - near) * (y0 + y1) / 2
    return area


def is_missing(value):
    """Whether a number is not there."""
    return value is None or math.isnan(value)
