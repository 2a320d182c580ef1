"""Any backbone of timm, with weights from a local file, from a package, or from the hub when asked."""

from pathlib import Path
from typing import Any

from torch import Tensor, nn

from unseen.core.errors import ConfigError
from unseen.core.registry import backbone, nearest
from unseen.models.backbone_facts import backbone_facts
from unseen.models.split_backbone import Step, channels_last, child_steps
from unseen.models.weights import (
    PRETRAINED,
    find_cached_download,
    hub_is_reachable,
    lite0_weights,
    load_weights,
    read_weights,
)


def _timm() -> Any:
    try:
        import timm
    except ImportError:
        raise ConfigError(
            "a timm backbone needs timm, which is not installed", hint="Use pip install unseen[vision]."
        ) from None
    return timm


def known_architectures() -> list[str]:
    """All names that timm can build, and those of its published weights (`resnet50.tv_in1k`)."""
    return [*_timm().list_models(), *_timm().list_pretrained()]


def input_normalization(architecture: str) -> dict[str, list[float]]:
    """Mean and standard deviation of the inputs that an architecture's published weights were trained with."""
    known = backbone_facts().get(architecture)
    if known is not None:
        return {"mean": list(known.mean), "std": list(known.std)}
    if architecture in backbone:
        return {}  # one of ours that has no published weights
    settings = _timm().models.get_pretrained_cfg(architecture)
    return {} if settings is None else {"mean": list(settings.mean), "std": list(settings.std)}


@backbone("timm")
class Timm(nn.Module):
    """A timm backbone up to its pooled features.

    ==============  =============================================================================================
    architecture    a name of timm: resnet50, or one with its weights for the hub: resnet50.tv_in1k
    weights         a local .safetensors or .pth file; None starts from random weights
    pretrained      "lite0": the ImageNet EfficientNet-Lite0 weights of the package that `unseen[lite]` installs;
                    "hub": timm's published weights, downloaded, or found where an earlier download left them
    channels        channels of the input images
    ==============  =============================================================================================

    Shape:      (n, channels, height, width) -> (n, width)
    Reference:  Wightman, PyTorch Image Models, https://github.com/huggingface/pytorch-image-models
    """

    def __init__(
        self, *, architecture: str, weights: str | None = None, pretrained: str | None = None, channels: int = 3
    ) -> None:
        super().__init__()
        timm = _timm()
        if not timm.is_model(architecture):
            raise ConfigError(f"timm has no architecture '{architecture}'{nearest(architecture, timm.list_models())}")
        if weights is not None and pretrained is not None:
            raise ConfigError("Timm: weights and pretrained were both given", hint="Use one of them.")
        if pretrained is not None and pretrained not in PRETRAINED:
            raise ConfigError(f"Timm: pretrained must be one of {', '.join(PRETRAINED)} or none", got=pretrained)
        self.architecture, self.weights, self.pretrained, self.channels = architecture, weights, pretrained, channels
        self.body = _body(architecture, channels, from_hub=pretrained == "hub")
        self.width: int = self.body.num_features
        if weights is not None:
            load_weights(self.body, read_weights(Path(weights)), weights)
        if pretrained == "lite0":
            load_weights(self.body, lite0_weights(architecture, self.body.state_dict()), f"pretrained={pretrained}")
        self.has_pretrained_weights = weights is not None or pretrained is not None

    def forward(self, images: Tensor) -> Tensor:
        """Pooled features."""
        return self.body(channels_last(images))

    def steps(self) -> list[Step]:
        """The steps of a forward pass, for a cut."""
        vision_transformer = _timm().models.vision_transformer.VisionTransformer
        return _steps_of_transformer(self.body) if isinstance(self.body, vision_transformer) else child_steps(self.body)


def _body(architecture: str, channels: int, *, from_hub: bool) -> nn.Module:
    timm = _timm()
    settings: dict[str, Any] = {"num_classes": 0, "in_chans": channels}
    known = timm.models.get_pretrained_cfg(architecture)
    if known is not None and known.fixed_input_size and architecture.startswith(("vit_", "deit")):
        settings["dynamic_img_size"] = True  # position embeddings stretched to images of any size
    if from_hub and not hub_is_reachable():
        file = find_cached_download(known.hf_hub_id if known is not None else None)
        if file is None:
            raise ConfigError(
                f"the weights of {architecture} did not come from the hub: it cannot be reached, and no earlier"
                " download is on this machine",
                hint=f"Use a local file: {architecture}:weights=FILE.",
            )
        settings["pretrained_cfg_overlay"] = {"file": file}
    try:
        return timm.create_model(architecture, pretrained=from_hub, **settings)
    except Exception as problem:
        if not from_hub:
            raise
        # Without a network, behind a proxy, for a model without weights: timm and its hub raise a dozen kinds.
        reason = " ".join(str(problem).split())[:200] or type(problem).__name__
        raise ConfigError(
            f"the weights of {architecture} did not come from the hub: {reason}",
            hint=f"Use a local file: {architecture}:weights=FILE.",
        ) from None


class _Tokens(nn.Module):
    """A vision transformer below its first block: patches, positions, and what stands before the blocks."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, images: Tensor) -> Tensor:
        body = self.body
        return body.norm_pre(body.patch_drop(body._pos_embed(body.patch_embed(images))))


class _Pooled(nn.Module):
    """The pooling of a vision transformer, which has parameters where it pools by attention."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.attention = body.attn_pool
        self.pool = body.pool

    def forward(self, tokens: Tensor) -> Tensor:
        return self.pool(tokens)


def _steps_of_transformer(body: nn.Module) -> list[Step]:
    blocks: list[Step] = [(f"blocks.{place}", block) for place, block in enumerate(body.blocks)]
    last = [(name, getattr(body, name)) for name in ("fc_norm", "head_drop", "head")]
    return [("tokens", _Tokens(body)), *blocks, ("norm", body.norm), ("pool", _Pooled(body)), *last]
