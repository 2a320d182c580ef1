"""Small data and recipes that train in a fraction of a second."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

SMALL_PLAN = """
name: small
data: {toy: "features=features.npz"}
splits: {half: "fraction:train=0.5,validation=0.3"}
base: {embedding_size: 6, epochs: 1, sampler: "samples_per_class:batch_size=12,per_class=2"}
methods:
  features: {loss: null, embedding_size: null, epochs: 0}
  contrastive: {loss: contrastive}
"""


def write_features(path: Path, classes: int = 12, per_class: int = 8, width: int = 10, seed: int = 0) -> Path:
    """Clustered random features with labels, as an npz file."""
    generator = np.random.default_rng(seed)
    centres = generator.normal(size=(classes, width))
    labels = np.repeat(np.arange(classes), per_class)
    rows = centres[labels] + 0.8 * generator.normal(size=(len(labels), width))
    np.savez(path, features=rows.astype(np.float32), labels=labels)
    return path


def settings_for(features: Path, loss: Any = "multi_similarity", **others: Any) -> dict[str, Any]:
    """Settings of a run on such features: about 20 steps, validated after each of 5 epochs."""
    return {
        "data": {"name": "features", "path": str(features)},
        "split": "fraction:train=0.6,validation=0.3",
        "loss": loss,
        "embedding_size": 6,
        "sampler": "samples_per_class:batch_size=10,per_class=2",
        "optimizer": "adam:lr=1e-2",
        "epochs": 5,
        **others,
    }


def without_times(result: dict[str, Any]) -> dict[str, Any]:
    """A result without its times."""
    history = [{key: value for key, value in row.items() if key != "seconds"} for row in result["history"]]
    return {**result, "history": history, "seconds": None}


def write_images(folder: Path, classes: int = 10, per_class: int = 6, side: int = 20, seed: int = 0) -> Path:
    """A folder of small noisy colour images, one subfolder per class."""
    generator = np.random.default_rng(seed)
    for label in range(classes):
        (folder / f"class {label}").mkdir(parents=True)
        colour = generator.integers(60, 196, size=3)
        for number in range(per_class):
            noise = generator.integers(-60, 60, size=(side, side, 3))
            image = Image.fromarray((colour + noise).astype(np.uint8))
            image.save(folder / f"class {label}" / f"{number}.png")
    return folder


def image_settings(folder: Path, **others: Any) -> dict[str, Any]:
    """Settings of a run on such a folder, with augmentation."""
    return {
        **settings_for(folder, **others),
        "data": {"name": "folder", "path": str(folder)},
        "model": "convnet:base=4",
        "transform": "crop:size=16",
        "epochs": 3,
    }


class Stop(Exception):
    """Ends a run from within."""


def stop_at(step: int) -> Callable[[int, int, str], None]:
    """A progress callback that ends the run after this many steps."""

    def progress(done: int, total: int, message: str) -> None:
        if done >= step:
            raise Stop

    return progress
