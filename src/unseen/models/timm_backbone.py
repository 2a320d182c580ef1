"""Any backbone of timm, with weights from a local file or from a package."""

from pathlib import Path
from typing import Any

from torch import Tensor, nn

from unseen.core.errors import ConfigError
from unseen.core.registry import backbone, nearest
from unseen.models.weights import PRETRAINED, lite0_weights, load_into, read_weights


def _timm() -> Any:
    try:
        import timm
    except ImportError:
        raise ConfigError(
            "a timm backbone needs timm, which is not installed", use="pip install unseen[vision]"
        ) from None
    return timm


def known_architectures() -> list[str]:
    """All names that timm can build."""
    return _timm().list_models()


def normalisation_of(architecture: str) -> dict[str, list[float]]:
    """Mean and standard deviation of the inputs that an architecture's published weights were trained with."""
    settings = _timm().models.get_pretrained_cfg(architecture)
    return {} if settings is None else {"mean": list(settings.mean), "std": list(settings.std)}


@backbone("timm")
class Timm(nn.Module):
    """A timm backbone up to its pooled features.

    ==============  =============================================================================================
    architecture    a name of timm: resnet50, tf_efficientnet_lite0, ...
    weights         a local .safetensors or .pth file; None starts from random weights
    pretrained      "lite0": the ImageNet EfficientNet-Lite0 weights of the package that `unseen[lite]` installs
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
            raise ConfigError("Timm: weights and pretrained were both given", use="one of them")
        if pretrained is not None and pretrained not in PRETRAINED:
            raise ConfigError(f"Timm: pretrained must be one of {', '.join(PRETRAINED)} or none", got=pretrained)
        self.architecture, self.weights, self.pretrained, self.channels = architecture, weights, pretrained, channels
        self.body = timm.create_model(architecture, pretrained=False, num_classes=0, in_chans=channels)
        self.width: int = self.body.num_features
        if weights is not None:
            load_into(self.body, read_weights(Path(weights)), weights)
        if pretrained is not None:
            load_into(self.body, lite0_weights(architecture, self.body.state_dict()), f"pretrained={pretrained}")
        self.has_pretrained_weights = weights is not None or pretrained is not None

    def forward(self, images: Tensor) -> Tensor:
        """Pooled features."""
        return self.body(images)
