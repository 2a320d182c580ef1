"""GoogLeNet from torchvision; timm has none."""

from torch import Tensor, nn

from unseen.core.checks import check_choice
from unseen.core.errors import ConfigError
from unseen.core.registry import backbone
from unseen.models.backbone import Backbone, Step, channels_last, child_steps
from unseen.models.pretrained.renormalize import Renormalize
from unseen.models.pretrained.weights import load_weights, read_weights, weights_file

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
HALF = ((0.5,) * 3, (0.5,) * 3)
PUBLISHED = "https://download.pytorch.org/models/googlenet-1378be20.pth"


@backbone("googlenet")
class GoogLeNet(Backbone):
    """GoogLeNet (Inception v1 with batch norm) up to its pooled features, without auxiliary classifiers.

    Inputs have ImageNet's normalisation; the first step converts them to that of the published weights.

    ============  ===============================================================================================
    weights       a local .safetensors or .pth file with torchvision's names; None for random weights
    pretrained    "hub": torchvision's published weights, downloaded unless an earlier download is there
    channels      of the input images: 3
    ============  ===============================================================================================

    Shape:      (n, 3, height, width) -> (n, 1024)
    Reference:  Szegedy et al., Going Deeper with Convolutions, CVPR 2015, arXiv:1409.4842
    Differs:    no dropout before the features
    """

    width = 1024

    def __init__(self, *, weights: str | None = None, pretrained: str | None = None, channels: int = 3) -> None:
        super().__init__()
        check_choice("GoogLeNet", "channels", channels, (3,))
        file = weights_file("googlenet", weights, pretrained, address=PUBLISHED, sha256="1378be20")
        self.weights, self.pretrained, self.channels = weights, pretrained, channels
        self.has_pretrained_weights = file is not None
        self.scale = Renormalize(IMAGENET, HALF)  # the weights were trained with mean and std of 1/2
        self.body = _torchvision_googlenet()
        self.body.dropout, self.body.fc = nn.Identity(), nn.Identity()
        if file is not None:
            load_weights(self.body, read_weights(file), str(file))

    def forward(self, images: Tensor) -> Tensor:
        """Return pooled features."""
        return self.body(self.scale(channels_last(images)))

    def steps(self) -> list[Step]:
        """Return the steps of a forward pass."""
        steps = dict(child_steps(self.body))
        last = [(name, steps.pop(name)) for name in ("dropout", "fc")]
        return [("scale", self.scale), *steps.items(), ("flatten", nn.Flatten()), *last]


def _torchvision_googlenet() -> nn.Module:
    try:
        from torchvision.models import googlenet
    except ImportError:
        raise ConfigError(
            "googlenet needs torchvision, which is not installed", hint="Run pip install unseen[vision]."
        ) from None
    return googlenet(weights=None, aux_logits=False, init_weights=False)
