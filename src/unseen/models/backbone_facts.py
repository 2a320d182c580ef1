"""Facts about known backbones before they are built: width, input normalisation, batch norm."""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from unseen.core.config import read_yaml


@dataclass(frozen=True)
class BackboneFacts:
    """Facts about one backbone."""

    width: int  # of the pooled features
    mean: tuple[float, ...]  # mean and std of RGB in [0, 1] with which the published weights were trained
    std: tuple[float, ...]
    batch_norm: str  # what `batch_norm=auto` does with loaded weights: "frozen statistics"; "none" if it has none
    what: str  # a short description with the papers that use it


@cache
def backbone_facts() -> dict[str, BackboneFacts]:
    """Return the facts about known backbones by name."""
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
