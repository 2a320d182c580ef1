"""Several backbones side by side."""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from unseen.core.config import build
from unseen.core.errors import ConfigError
from unseen.core.registry import backbone
from unseen.models.backbone import Backbone, Step
from unseen.models.embedder import model_record
from unseen.models.pretrained.renormalize import Renormalize
from unseen.models.timm_backbone import input_normalization


@backbone("joined")
class Joined(Backbone):
    """Several backbones side by side: the features of each at one length, concatenated.

    ============  ===============================================================================================
    backbones     at least two models, by name or record; `joined:[lite0,dinov2_s]` is short for
                  `joined:backbones=[lite0,dinov2_s]`
    channels      of the input images
    size          of the input images
    ============  ===============================================================================================

    Inputs have the normalisation of the first backbone whose normalisation is known, and are converted for those that
    were trained with another. The features of every backbone get one length, at which all features together have a
    mean square of 1: numbers of that size suit the learning rates of single backbones. For depth `frozen` and for
    embedding: it is no chain of stages that could be cut.

    Shape:      (n, channels, height, width) -> (n, sum of the widths)
    """

    def __init__(self, *, backbones: list[str | dict[str, object]], channels: int = 3, size: int | None = None) -> None:
        super().__init__()
        if len(backbones) < 2:
            raise ConfigError(
                "joined: backbones must be at least 2", got=backbones, hint="Write joined:[lite0,dinov2_s]."
            )
        self.backbones, self.channels, self.size = backbones, channels, size
        records = [model_record(member) for member in backbones]
        supplied: dict[str, Any] = {"channels": channels, "size": size, "input_shape": (channels, size, size)}
        members: list[Backbone] = [build(backbone, record, supplied) for record in records]
        common = input_normalization({"name": "joined", "backbones": records})
        own = [input_normalization(record) for record in records]
        self.members = nn.ModuleList(members)
        self.conversions = nn.ModuleList(
            Renormalize((common["mean"], common["std"]), (settings["mean"], settings["std"]))
            if settings and settings != common
            else nn.Identity()
            for settings in own
        )
        self.width = sum(member.width for member in members)
        self.has_pretrained_weights = all(member.has_pretrained_weights for member in members)

    def forward(self, images: Tensor) -> Tensor:
        """Return the features of every backbone at one length, concatenated."""
        pairs = zip(self.members, self.conversions, strict=True)
        units = [normalize(member(conversion(images))) for member, conversion in pairs]
        return torch.cat(units, dim=1) * math.sqrt(self.width / len(units))

    def steps(self) -> list[Step]:
        """Return no steps: the backbones run side by side."""
        return []
