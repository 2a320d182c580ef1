"""A catalogue of Gaussian classes in named groups, of which one lies apart from the others."""

import numpy as np

from unseen.data import Catalogue, FeatureArray

SIZES = {"near": 20, "middle": 14, "far": 9, "tiny": 3}
PLACES = {"near": 1.0, "middle": 0.0, "far": 5.0, "tiny": 0.0}


def grouped_catalogue(per_class=6, width=5, gap=4.0, seed=0):
    """Groups lie at their places, `gap` apart, along an axis; classes scatter around the place of their group."""
    generator = np.random.default_rng(seed)
    groups = [name for name, size in SIZES.items() for _ in range(size)]
    centres = generator.normal(size=(len(groups), width))
    centres[:, 0] += [gap * PLACES[name] for name in groups]
    labels = np.repeat(np.arange(len(groups)), per_class)
    rows = centres[labels] + 0.5 * generator.normal(size=(len(labels), width))
    return Catalogue(
        name="many groups",
        reader=FeatureArray(rows.astype(np.float32)),
        labels=labels.astype(np.int64),
        class_names=tuple(f"class {label:02d}" for label in range(len(groups))),
        ids=tuple(f"class {label:02d}/{number}" for number, label in enumerate(labels)),
        class_groups=tuple(groups),
    )


def write_features(path, catalogue):
    """The catalogue as a file that `features=FILE.npz` reads."""
    named = {"labels": catalogue.class_names, "groups": catalogue.class_groups}
    columns = {key: np.array(names)[catalogue.labels] for key, names in named.items()}
    np.savez(path, features=catalogue.reader.features, **columns)
