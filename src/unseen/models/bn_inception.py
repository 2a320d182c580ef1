"""BN-Inception, with the layer names of its widely used PyTorch port."""

from typing import Literal, NamedTuple

import torch.nn.functional as F
from torch import Tensor, cat, nn

from unseen.core.checks import check_choice
from unseen.core.registry import backbone
from unseen.models.backbone import Backbone, channels_last
from unseen.models.pretrained.weights import load_weights, read_weights, strip_prefixes, weights_file

Pooling = Literal["average", "max"]

# The network expects 255 times the RGB values in [0, 1] minus these means, in BGR order.
MEAN_BLUE_GREEN_RED = (104.0, 117.0, 128.0)
PUBLISHED = "http://data.lip6.fr/cadene/pretrainedmodels/bn_inception-52deb4733.pth"
PUBLISHED_SHA256 = "52deb473314542a5c2f87e9e6f26f4ca42fe863d15f986414dbae8c2dfdd2353"


class Widths(NamedTuple):
    """Channels of the branches of an inception stage; without 1x1 and projection it has stride 2."""

    incoming: int
    single: int
    reduce: int
    triple: int
    double_reduce: int
    double: int
    projection: int


STAGES = {
    "inception_3a": Widths(192, 64, 64, 64, 64, 96, 32),
    "inception_3b": Widths(256, 64, 64, 96, 64, 96, 64),
    "inception_3c": Widths(320, 0, 128, 160, 64, 96, 0),
    "inception_4a": Widths(576, 224, 64, 96, 96, 128, 128),
    "inception_4b": Widths(576, 192, 96, 128, 96, 128, 128),
    "inception_4c": Widths(576, 160, 128, 160, 128, 160, 128),
    "inception_4d": Widths(608, 96, 128, 192, 160, 192, 128),
    "inception_4e": Widths(608, 0, 128, 192, 192, 256, 0),
    "inception_5a": Widths(1056, 352, 192, 320, 160, 224, 128),
    "inception_5b": Widths(1024, 352, 192, 320, 192, 224, 128),
}


class _Units(nn.Module):
    """Named units of convolution, batch norm and ReLU."""

    def unit(self, name: str, incoming: int, outgoing: int, *, kernel: int = 1, stride: int = 1) -> None:
        self.add_module(name, nn.Conv2d(incoming, outgoing, kernel, stride=stride, padding=kernel // 2))
        self.add_module(f"{name}_bn", nn.BatchNorm2d(outgoing))

    def run(self, inputs: Tensor, *names: str) -> Tensor:
        for name in names:
            inputs = F.relu(self.get_submodule(f"{name}_bn")(self.get_submodule(name)(inputs)))
        return inputs


class _Stem(_Units):
    """Units one after the other: (name, incoming, outgoing, kernel, stride) of each."""

    def __init__(self, *units: tuple[str, int, int, int, int]) -> None:
        super().__init__()
        self.names = [name for name, *_ in units]
        for name, incoming, outgoing, kernel, stride in units:
            self.unit(name, incoming, outgoing, kernel=kernel, stride=stride)

    def forward(self, maps: Tensor) -> Tensor:
        return self.run(maps, *self.names)


class _Inception(_Units):
    """Concatenated branches: 1x1, 3x3, double 3x3, and pooling with a projection."""

    def __init__(self, widths: Widths, *, max_pool: bool) -> None:
        super().__init__()
        self.is_strided = widths.single == 0
        self.max_pool = max_pool
        stride = 2 if self.is_strided else 1
        if not self.is_strided:
            self.unit("1x1", widths.incoming, widths.single)
            self.unit("pool_proj", widths.incoming, widths.projection)
        self.unit("3x3_reduce", widths.incoming, widths.reduce)
        self.unit("3x3", widths.reduce, widths.triple, kernel=3, stride=stride)
        self.unit("double_3x3_reduce", widths.incoming, widths.double_reduce)
        self.unit("double_3x3_1", widths.double_reduce, widths.double, kernel=3)
        self.unit("double_3x3_2", widths.double, widths.double, kernel=3, stride=stride)

    def forward(self, maps: Tensor) -> Tensor:
        branches = [
            self.run(maps, "3x3_reduce", "3x3"),
            self.run(maps, "double_3x3_reduce", "double_3x3_1", "double_3x3_2"),
        ]
        if self.is_strided:
            # Maps of odd size are zero-padded, so that pooling and strided convolutions have the same output size.
            padded = F.pad(maps, (0, maps.shape[-1] % 2, 0, maps.shape[-2] % 2))
            return cat([*branches, F.max_pool2d(padded, 3, stride=2, ceil_mode=True)], dim=1)
        pool = F.max_pool2d if self.max_pool else F.avg_pool2d
        projected = self.run(pool(maps, 3, stride=1, padding=1), "pool_proj")
        return cat([self.run(maps, "1x1"), *branches, projected], dim=1)


class _RGBToBGR(nn.Module):
    def forward(self, images: Tensor) -> Tensor:
        return images.flip(1)


@backbone("bn_inception")
class BNInception(Backbone):
    """BN-Inception up to its pooled features.

    The published weights expect BGR values in [0, 255] minus the means 104, 117 and 128. The transform does this as
    mean and standard deviation of RGB (`input_normalization`), and the first step reverses the channels.

    ============  ===================================================================================================
    pooling       "average" or "max" over the last map
    weights       a local .safetensors or .pth file with the names of bn_inception-52deb4733.pth, or with ours; None
                  for random weights
    pretrained    "hub": that file, downloaded unless an earlier download is there
    channels      of the input images: 3
    ============  ===================================================================================================

    Shape:      (n, 3, height, width) -> (n, 1024); the last map is 1/32 of the image
    Reference:  Ioffe, Szegedy, Batch Normalization, ICML 2015, arXiv:1502.03167
    Differs:    accepts images of any size; the port only those with even map sizes before each stride
    """

    width = 1024

    def __init__(
        self,
        *,
        pooling: Pooling = "average",
        weights: str | None = None,
        pretrained: str | None = None,
        channels: int = 3,
    ) -> None:
        super().__init__()
        check_choice("BNInception", "channels", channels, (3,))
        check_choice("BNInception", "pooling", pooling, ("average", "max"))
        file = weights_file("bn_inception", weights, pretrained, address=PUBLISHED, sha256=PUBLISHED_SHA256)
        self.pooling, self.weights, self.pretrained, self.channels = pooling, weights, pretrained, channels
        self.has_pretrained_weights = file is not None
        self.bgr = _RGBToBGR()
        self.conv1 = _Stem(("7x7_s2", 3, 64, 7, 2))
        self.pool1 = nn.MaxPool2d(3, stride=2, ceil_mode=True)
        self.conv2 = _Stem(("3x3_reduce", 64, 64, 1, 1), ("3x3", 64, 192, 3, 1))
        self.pool2 = nn.MaxPool2d(3, stride=2, ceil_mode=True)
        for name, widths in STAGES.items():
            self.add_module(name, _Inception(widths, max_pool=name == "inception_5b"))
        self.pool = nn.AdaptiveAvgPool2d(1) if pooling == "average" else nn.AdaptiveMaxPool2d(1)
        self.flatten = nn.Flatten()
        if file is not None:
            load_weights(self, from_published(read_weights(file), self.state_dict()), str(file))

    def forward(self, images: Tensor) -> Tensor:
        """Return pooled features."""
        images = channels_last(images)
        for stage in self.children():
            images = stage(images)
        return images


def from_published(weights: dict[str, Tensor], wanted: dict[str, Tensor]) -> dict[str, Tensor]:
    """Rename the weights of the port: `inception_3a_1x1.weight` becomes `inception_3a.1x1.weight`.

    Some copies of the file have batch-norm tensors with an additional first dimension of size 1.
    """
    own_names = {name.replace(".", "_", 1): name for name in wanted}
    renamed = {}
    for name, tensor in weights.items():
        plain = strip_prefixes(name, wanted)
        own = plain if plain in wanted else own_names.get(strip_prefixes(name, own_names), plain)
        is_row = own in wanted and tensor.ndim == wanted[own].ndim + 1 and len(tensor) == 1
        renamed[own] = tensor[0] if is_row else tensor
    return renamed
