"""What is known of a backbone before it is built: width, normalisation, and what becomes of its batch norm."""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from unseen.core.config import read_yaml


@dataclass(frozen=True)
class BackboneFacts:
    """A backbone of the papers.

    ==========  =======================================================================================
    width       of its pooled features
    mean, std   of red, green and blue in [0, 1], as its published weights were trained
    batch_norm  what `batch_norm=auto` does with loaded weights: "frozen statistics", or "none" to freeze
    what        in a few words, with the papers (R, K, D, O) that use it
    ==========  =======================================================================================
    """

    width: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    batch_norm: str
    what: str


@cache
def backbone_facts() -> dict[str, BackboneFacts]:
    """The backbones of the papers by name."""
    models = read_yaml(Path(str(files("unseen.models"))) / "backbone_facts.yaml")["models"]
    return {
        name: BackboneFacts(
            width=entry["width"],
            mean=tuple(entry["normalisation"]["mean"]),
            std=tuple(entry["normalisation"]["std"]),
            batch_norm=entry["batch_norm"],
            what=entry["what"],
        )
        for name, entry in sorted(models.items())
    }
