"""A catalogue of Gaussian classes in two groups, some classes of each on the wrong side of the start."""

import numpy as np

from unseen.data import Catalogue, FeatureArray, load_catalogue, split_catalogue
from unseen.shifts import LadderSettings, LadderSource, build_ladder, write_ladder


def gaussian_catalogue(classes=40, per_class=15, width=6, gap=6.0, mixed=0.5, seed=0):
    """Half of the classes lie `gap` apart from the others; a share `mixed` of each half starts on the other side."""
    generator = np.random.default_rng(seed)
    group = np.arange(classes) >= classes // 2
    group[: int(mixed * classes / 2)] ^= True
    group[classes - int(mixed * classes / 2) :] ^= True
    centres = generator.normal(size=(classes, width))
    centres[:, 0] += gap * group
    labels = np.repeat(np.arange(classes), per_class)
    rows = centres[labels] + 0.5 * generator.normal(size=(len(labels), width))
    return Catalogue(
        name="two groups",
        reader=FeatureArray(rows.astype(np.float32)),
        labels=labels.astype(np.int64),
        class_names=tuple(f"class {label:02d}" for label in range(classes)),
        ids=tuple(f"class {label:02d}/{number}" for number, label in enumerate(labels)),
    )


def start_of(catalogue):
    """The first half of the classes against the second."""
    return split_catalogue(catalogue, "first:validation=0")


def write_features_and_ladder(folder, schedule, *, rungs, mixed=0.5, per_class=4, made_by=None):
    """`groups.npz` and `ladder.json` in the folder: the features of a catalogue, and a ladder of them."""
    made = gaussian_catalogue(mixed=mixed, per_class=per_class)
    np.savez(folder / "groups.npz", features=made.reader.features, labels=np.array(made.class_names)[made.labels])
    catalogue = load_catalogue(f"features={folder / 'groups.npz'}")
    settings = LadderSettings(schedule=schedule, rungs=rungs)
    ladder = build_ladder(ladder_source(catalogue, made_by=made_by), start_of(catalogue), settings)
    write_ladder(folder / "ladder.json", ladder)


def ladder_source(catalogue, **facts):
    """A catalogue of features as a ladder is built on it."""
    return LadderSource(catalogue, catalogue.reader.features, **facts)
