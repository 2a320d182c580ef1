"""An embedder: a backbone, a linear head, and the policy for batch norm."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from unseen.core.checks import check_choice
from unseen.core.config import as_record, build
from unseen.core.errors import ConfigError
from unseen.core.randomness import derive, seeded
from unseen.core.registry import backbone as backbones
from unseen.core.registry import nearest
from unseen.models.heads import linear_head

BatchNormPolicy = Literal["auto", "frozen", "trained"]
HeadFactory = Callable[[int, int | None], nn.Module]


class Backbone(Protocol):
    """What an embedder needs of a backbone: a stated width and whether it starts from pretrained weights."""

    width: int
    has_pretrained_weights: bool

    def __call__(self, inputs: Tensor) -> Tensor:
        """Pooled features, one row an input."""
        ...


class Embedder(nn.Module):
    """Raw embeddings of inputs: a head, linear unless said otherwise, on a backbone's pooled features.

    ===============  =====================================================================================
    embedding_size   width of the embedding; None leaves the backbone's features as they are
    batch_norm       "frozen" keeps the statistics of batch norm and trains its scale and shift, as the
                     papers do; "trained" lets both move; "auto" freezes where weights are pretrained
    head             makes the head of the features' width and the embedding's, None for none
    ===============  =====================================================================================

    Embeddings are not normalised here: each loss does that where its definition says so.
    """

    def __init__(
        self,
        backbone: nn.Module,
        *,
        embedding_size: int | None = 128,
        batch_norm: BatchNormPolicy = "auto",
        head: HeadFactory = linear_head,
    ) -> None:
        super().__init__()
        check_choice("Embedder", "batch_norm", batch_norm, ("auto", "frozen", "trained"))
        self.backbone = backbone
        self.head = head(backbone.width, embedding_size)
        self.width: int = embedding_size or backbone.width
        self.freezes_batch_norm = batch_norm == "frozen" or (batch_norm == "auto" and backbone.has_pretrained_weights)

    def forward(self, inputs: Tensor) -> Tensor:
        """Raw embeddings."""
        return self.head(self.backbone(inputs))

    def on(self, backbone: nn.Module) -> "Embedder":
        """An embedder with this head and this policy on another backbone; the head is shared, not copied."""
        policy: BatchNormPolicy = "frozen" if self.freezes_batch_norm else "trained"
        other = Embedder(backbone, embedding_size=None, batch_norm=policy)
        other.head, other.width = self.head, self.width
        return other

    def train(self, mode: bool = True) -> "Embedder":
        """Training mode, but for batch norms whose statistics stay frozen."""
        super().train(mode)
        if self.freezes_batch_norm:
            for module in self.backbone.modules():
                if isinstance(module, _BatchNorm):
                    module.eval()
        return self


def model_record(value: str | Mapping[str, Any]) -> dict[str, Any]:
    """A backbone's record; a name of timm (`resnet50:weights=FILE`) stands for timm's backbone of that architecture."""
    record = as_record(value, "model")
    name = record["name"]
    if name in backbones:
        return record
    own = backbones.names()
    try:
        from unseen.models.timm_backbone import known_architectures

        architectures = known_architectures()
    except ConfigError:  # without timm its names are unknown ones
        architectures = []
    if name not in architectures:
        close = nearest(name, [*own, *architectures])
        raise ConfigError(f"unknown model '{name}'{close} (own: {', '.join(own)}; others: timm's {len(architectures)})")
    return {**record, "name": "timm", "architecture": name}


def build_embedder(
    model: str | Mapping[str, Any],
    *,
    input_shape: tuple[int, ...],
    embedding_size: int | None,
    batch_norm: BatchNormPolicy = "auto",
    seed: int = 0,
    head: HeadFactory = linear_head,
) -> Embedder:
    """The embedder that a record describes, with weights drawn from the seed where none are loaded."""
    supplied: dict[str, Any] = {"input_shape": input_shape}
    if len(input_shape) == 3:
        supplied |= {"channels": input_shape[0], "size": input_shape[-1]}
    record = model_record(model)
    if len(input_shape) == 1 and record["name"] != "identity":
        raise ConfigError(
            f"model '{record['name']}' needs images, the data holds features", hint="Use --model identity."
        )
    with seeded(derive(seed, "model weights")):
        backbone = build(backbones, record, supplied)
        return Embedder(backbone, embedding_size=embedding_size, batch_norm=batch_norm, head=head)
