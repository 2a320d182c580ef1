"""An embedder: a backbone, a head, and the policy for batch norm; and the embeddings of a catalogue's items."""

from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from unseen.core.checks import check_choice
from unseen.core.config import Record, as_record, build, complete
from unseen.core.errors import ConfigError
from unseen.core.progress import Progress, no_progress
from unseen.core.randomness import derive, seeded
from unseen.core.registry import backbone as backbones
from unseen.core.registry import nearest
from unseen.data.batches import CatalogueDataset, evaluation_batches
from unseen.models.backbone import Backbone
from unseen.models.engine import Engine, EngineChoice, device_of, rows_per_step
from unseen.models.heads import linear_head
from unseen.models.pretrained.backbone_facts import packaged_weights

BatchNormPolicy = Literal["auto", "frozen", "trained"]
HeadFactory = Callable[[int, int | None], nn.Module]
# Arguments of backbones that follow from the images, so that no record has to state them.
SUPPLIED: Record = dict.fromkeys(("input_shape", "channels", "size"), None)


class Embedder(nn.Module):
    """Raw embeddings: a head, linear by default, on a backbone's pooled features.

    ===============  =====================================================================================
    embedding_size   width of the embedding; None returns the backbone's features
    batch_norm       "frozen" keeps the running statistics of batch norm and trains its scale and shift, as
                     the papers do; "trained" updates both; "auto" freezes if weights are pretrained
    head             makes the head from the width of the features and the embedding size
    ===============  =====================================================================================

    Embeddings are not normalised here: each loss normalises as its definition says.
    """

    def __init__(
        self,
        backbone: Backbone,
        *,
        embedding_size: int | None = 128,
        batch_norm: BatchNormPolicy = "auto",
        head: HeadFactory = linear_head,
    ) -> None:
        super().__init__()
        check_choice("Embedder", "batch_norm", batch_norm, ("auto", "frozen", "trained"))
        self.backbone = backbone
        self.head = head(backbone.width, embedding_size)
        self.width = embedding_size or backbone.width
        self.freezes_batch_norm = batch_norm == "frozen" or (batch_norm == "auto" and backbone.has_pretrained_weights)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return raw embeddings."""
        return self.head(self.backbone(inputs))

    def with_backbone(self, backbone: Backbone) -> "Embedder":
        """Return an embedder with another backbone that shares this head and batch-norm policy."""
        policy: BatchNormPolicy = "frozen" if self.freezes_batch_norm else "trained"
        other = Embedder(backbone, embedding_size=None, batch_norm=policy)
        other.head, other.width = self.head, self.width
        return other

    def train(self, mode: bool = True) -> "Embedder":
        """Set training mode, except for batch norm with frozen statistics."""
        super().train(mode)
        if self.freezes_batch_norm:
            for module in self.backbone.modules():
                if isinstance(module, _BatchNorm):
                    module.eval()
        return self


def model_record(value: str | Mapping[str, object]) -> Record:
    """Return a backbone's record.

    A timm name (`resnet50:weights=FILE`) becomes the `timm` backbone, the short name of packaged weights (`lite0`) its
    timm architecture with these weights, and the members of joined backbones become complete records.
    """
    if isinstance(value, str) and value.startswith("joined:["):
        value = value.replace("joined:[", "joined:backbones=[", 1)
    record = as_record(value, "model")
    name = record["name"]
    if name == "joined" and isinstance(record.get("backbones"), list):
        members = [complete(backbones, model_record(member), SUPPLIED) for member in record["backbones"]]
        return record | {"backbones": members}
    if name in backbones:
        return record
    if name in packaged_weights():
        known = packaged_weights()[name]
        return {
            "pretrained": name,
            "pooling": known.pooling,
            **record,
            "name": "timm",
            "architecture": known.architecture,
        }
    own = [*backbones.names(), *packaged_weights()]
    try:
        from unseen.models.timm_backbone import known_architectures

        architectures = known_architectures()
    except ConfigError:  # timm is not installed
        architectures = []
    if name not in architectures:
        close = nearest(name, [*own, *architectures])
        raise ConfigError(f"unknown model '{name}'{close} (own: {', '.join(own)}; others: timm's {len(architectures)})")
    return {**record, "name": "timm", "architecture": name}


def build_embedder(
    model: str | Mapping[str, object],
    *,
    input_shape: tuple[int, ...],
    embedding_size: int | None,
    batch_norm: BatchNormPolicy = "auto",
    seed: int = 0,
    head: HeadFactory = linear_head,
) -> Embedder:
    """Build the embedder that a record describes; weights that are not loaded are drawn from the seed."""
    supplied: dict[str, object] = {"input_shape": input_shape}
    if len(input_shape) == 3:
        supplied |= {"channels": input_shape[0], "size": input_shape[-1]}
    record = model_record(model)
    if len(input_shape) == 1 and record["name"] != "identity":
        raise ConfigError(
            f"model '{record['name']}' needs images, the data holds features", hint="Set --model identity."
        )
    with seeded(derive(seed, "model weights")):
        backbone = build(backbones, record, supplied)
        return Embedder(backbone, embedding_size=embedding_size, batch_norm=batch_norm, head=head)


def embed(
    model: nn.Module,
    dataset: CatalogueDataset,
    indices: np.ndarray,
    *,
    engine: EngineChoice = "auto",
    workers: int = 0,
    progress: Progress = no_progress,
) -> Tensor:
    """Compute the raw embeddings of the items at `indices` in evaluation mode; float32 on the CPU.

    `engine` is described at `Engine`. The model and its training mode are not changed.
    """
    batches = evaluation_batches(indices, rows_per_step(dataset.input_shape, device_of(model)))
    rows: Tensor | None = None
    done = 0
    for outputs in Engine(model, engine).rows(dataset, batches, workers=workers):
        if rows is None:
            rows = torch.empty(len(indices), *outputs.shape[1:])
        rows[done : done + len(outputs)] = outputs
        done += len(outputs)
        progress(done, len(indices), "")
    assert rows is not None, "there is an item to embed"
    return rows
