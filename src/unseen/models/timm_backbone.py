"""Any timm backbone, with weights from a local file, from a package, or from the hub."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from torch import Tensor, nn

from unseen.core.checks import check_above, check_choice
from unseen.core.errors import ConfigError
from unseen.core.registry import backbone, nearest
from unseen.models.backbone import Backbone, Step, channels_last, child_steps
from unseen.models.pretrained.backbone_facts import backbone_facts, packaged_weights
from unseen.models.pretrained.packaged import packaged_state
from unseen.models.pretrained.weights import ANSWER_SECONDS, check_weights_settings, load_weights, read_weights

# Added as a floor before the root, so that a channel that is zero everywhere has a finite gradient.
_SMALLEST = 1e-6


class GeneralizedMean(nn.Module):
    r"""The generalised mean of every channel over the positions of its map.

    .. math:: f_c = \Bigl(\tfrac{1}{hw} \sum_{ij} \max(x_{cij}, \epsilon)^p\Bigr)^{1/p}

    ===========  =============================================================================================
    p            ``power`` (> 0): 1 is the average, and the larger it is the nearer the maximum
    epsilon      1e-6; maps are those after a ReLU
    ===========  =============================================================================================

    Shape:      (n, channels, height, width) -> (n, channels)
    Reference:  Radenovic et al., Fine-tuning CNN Image Retrieval with No Human Annotation, TPAMI 2019, arXiv:1711.02512
    Differs:    the power is fixed; learned there, it stays near 3
    """

    def __init__(self, *, power: float = 3.0) -> None:
        super().__init__()
        check_above("GeneralizedMean", "power", power, 0)
        self.power = power

    def forward(self, maps: Tensor) -> Tensor:
        """Return the pooled channels."""
        return maps.clamp_min(_SMALLEST).pow(self.power).mean(dim=(2, 3)).pow(1 / self.power)


Pooling = Literal["average", "max", "gem"]
_POOLINGS: dict[Pooling, Callable[[], nn.Module]] = {
    "average": lambda: nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    "max": lambda: nn.Sequential(nn.AdaptiveMaxPool2d(1), nn.Flatten()),
    "gem": GeneralizedMean,
}


def _timm() -> ModuleType:
    try:
        import timm
    except ImportError:
        raise ConfigError(
            "a timm backbone needs timm, which is not installed", hint="Run pip install unseen[vision]."
        ) from None
    return timm


def known_architectures() -> list[str]:
    """Return all timm architectures, and the names of its published weights (`resnet50.tv_in1k`)."""
    return [*_timm().list_models(), *_timm().list_pretrained()]


def input_normalization(model: str | Mapping[str, object]) -> dict[str, list[float]]:
    """Return mean and std of the inputs with which an architecture's published weights were trained.

    Joined backbones take inputs as the first of them whose normalisation is known.
    """
    if not isinstance(model, str):
        members = model.get("backbones")
        if isinstance(members, list):
            return next((settings for member in members if (settings := input_normalization(member))), {})
        model = str(model.get("architecture", model["name"]))
    architecture = model
    known = backbone_facts().get(architecture)
    if known is not None:
        return {"mean": list(known.mean), "std": list(known.std)}
    if architecture in backbone:
        return {}  # a backbone of ours without published weights
    settings = _timm().models.get_pretrained_cfg(architecture)
    return {} if settings is None else {"mean": list(settings.mean), "std": list(settings.std)}


def has_fixed_input_size(model: Mapping[str, object]) -> bool:
    """Return whether a model's record is of a network for images of one size, as most vision transformers are."""
    settings = _timm().models.get_pretrained_cfg(model["architecture"]) if model["name"] == "timm" else None
    return settings is not None and bool(settings.fixed_input_size)


@backbone("timm")
class Timm(Backbone):
    """A timm backbone up to its pooled features.

    ==============  =============================================================================================
    architecture    a timm name: resnet50, or with the name of its weights for the hub: resnet50.tv_in1k
    weights         a local .safetensors or .pth file; None for random weights
    pretrained      the short name of weights in a package, such as lite0 (`unseen list backbones`);
                    "hub": timm's published weights, downloaded unless an earlier download is there
    pooling         of the last map: "average", "max", or "gem", the generalised mean with power 3, which weighs
                    the strongest positions; None is the architecture's own. Short names of packaged weights bring
                    the one that is best for them
    channels        of the input images
    size            of the input images; a vision transformer needs a multiple of its patches' size
    ==============  =============================================================================================

    Shape:      (n, channels, height, width) -> (n, width)
    Reference:  Wightman, PyTorch Image Models, https://github.com/huggingface/pytorch-image-models
    """

    def __init__(
        self,
        *,
        architecture: str,
        weights: str | None = None,
        pretrained: str | None = None,
        pooling: Pooling | None = None,
        channels: int = 3,
        size: int | None = None,
    ) -> None:
        super().__init__()
        timm = _timm()
        if not timm.is_model(architecture):
            raise ConfigError(f"timm has no architecture '{architecture}'{nearest(architecture, timm.list_models())}")
        check_weights_settings("timm", weights, pretrained, (*packaged_weights(), "hub"))
        self.architecture, self.weights, self.pretrained, self.pooling = architecture, weights, pretrained, pooling
        self.channels, self.size = channels, size
        body = _create_model(architecture, channels, from_hub=pretrained == "hub")
        self.body: nn.Module = body
        self.width = int(body.num_features)
        _check_size(body, architecture, size)
        if pooling is not None:
            check_choice("timm", "pooling", pooling, tuple(_POOLINGS))
            _set_pooling(body, architecture, _POOLINGS[pooling]())
        if weights is not None:
            load_weights(self.body, read_weights(Path(weights)), weights)
        if pretrained in packaged_weights():
            load_weights(self.body, packaged_state(pretrained, architecture, body), f"pretrained={pretrained}")
        self.has_pretrained_weights = weights is not None or pretrained is not None

    def forward(self, images: Tensor) -> Tensor:
        """Return pooled features."""
        return self.body(channels_last(images))

    def steps(self) -> list[Step]:
        """Return the steps of a forward pass."""
        is_transformer = isinstance(self.body, _vision_transformer())
        return _transformer_steps(self.body) if is_transformer else child_steps(self.body)


def _create_model(architecture: str, channels: int, *, from_hub: bool) -> Any:
    timm = _timm()
    failure, hint = f"cannot download the weights of {architecture}", f"Set a local file: {architecture}:weights=FILE."
    settings: dict[str, Any] = {"num_classes": 0, "in_chans": channels}
    known = timm.models.get_pretrained_cfg(architecture)
    if known is not None and known.fixed_input_size and architecture.startswith(("vit_", "deit")):
        settings["dynamic_img_size"] = True  # interpolates position embeddings for other image sizes
    if from_hub and not hub_is_reachable():
        file = find_cached_download(known.hf_hub_id if known is not None else None)
        if file is None:
            reason = "the hub cannot be reached, and there is no earlier download on this machine"
            raise ConfigError(f"{failure}: {reason}", hint=hint)
        settings["pretrained_cfg_overlay"] = {"file": file}
    try:
        return timm.create_model(architecture, pretrained=from_hub, **settings)
    except Exception as problem:
        if not from_hub:
            raise
        # No network, a proxy, a model without weights: timm and its hub raise many kinds of errors.
        reason = " ".join(str(problem).split())[:200] or type(problem).__name__
        raise ConfigError(f"{failure}: {reason}", hint=hint) from None


def _check_size(body: Any, architecture: str, size: int | None) -> None:
    """Refuse a size of images that a vision transformer cannot divide into its patches."""
    patches = getattr(body, "patch_embed", None)
    side = getattr(patches, "patch_size", (1,))[0]
    if size is not None and isinstance(body, _vision_transformer()) and size % side:
        raise ConfigError(
            f"{architecture} divides images into patches of {side} x {side} pixels, and their size must be a multiple",
            got=size,
            hint=f"Use --transform crop:size={max(1, round(size / side)) * side}.",
        )


def _set_pooling(body: Any, architecture: str, pooling: nn.Module) -> None:
    """Replace the pooling of the last map of a convolutional network."""
    if not isinstance(getattr(body, "global_pool", None), nn.Module):
        raise ConfigError(
            f"{architecture} has no last map whose pooling could be replaced", hint="Leave out the setting pooling."
        )
    body.global_pool = pooling


def _vision_transformer() -> Any:
    return _timm().models.vision_transformer.VisionTransformer


def hub_is_reachable() -> bool:
    """Return whether timm's hub can be reached; its own client would try for most of a minute."""
    from huggingface_hub import constants
    from huggingface_hub.utils import get_session

    try:
        get_session().head(constants.ENDPOINT, timeout=ANSWER_SECONDS)
    except Exception:  # offline mode, no DNS, no route, a proxy: several libraries' errors, all mean no
        return False
    return True


def find_cached_download(repository: str | None) -> str | None:
    """Return the weights file of an earlier download from timm's hub, if there is one."""
    from huggingface_hub import try_to_load_from_cache

    names = ("model.safetensors", "pytorch_model.bin") if repository else ()
    paths = [try_to_load_from_cache(str(repository), name) for name in names]
    return next((path for path in paths if isinstance(path, str)), None)


class _Tokens(nn.Module):
    """A vision transformer before its first block: patch and position embeddings."""

    def __init__(self, body: Any) -> None:
        super().__init__()
        self.body: Any = body

    def forward(self, images: Tensor) -> Tensor:
        body = self.body
        return body.norm_pre(body.patch_drop(body._pos_embed(body.patch_embed(images))))


class _Pooled(nn.Module):
    """The pooling of a vision transformer, which has parameters if it pools by attention."""

    def __init__(self, body: Any) -> None:
        super().__init__()
        self.attention = body.attn_pool
        self.pool: Any = body.pool

    def forward(self, tokens: Tensor) -> Tensor:
        return self.pool(tokens)


def _transformer_steps(body: Any) -> list[Step]:
    blocks: list[Step] = [(f"blocks.{number}", block) for number, block in enumerate(body.blocks)]
    last = [(name, getattr(body, name)) for name in ("fc_norm", "head_drop", "head")]
    return [("tokens", _Tokens(body)), *blocks, ("norm", body.norm), ("pool", _Pooled(body)), *last]
