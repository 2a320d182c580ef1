"""A small convolutional network for small images, trained from scratch."""

import torch
from torch import Tensor, nn

from unseen.core.checks import check_count
from unseen.core.registry import backbone
from unseen.models.backbone import Backbone, Step, channels_last


@backbone("convnet")
class ConvNet(Backbone):
    """Blocks of convolution, batch norm, 2 x 2 pooling and ReLU; the features are the flattened last map.

    ============  ==============================================================
    size          width and height of the input in pixels, a multiple of 2^layers
    channels      1 for grey, 3 for colour
    base          channels of the first block; each further block has twice as many
    layers        number of blocks
    ============  ==============================================================

    Shape: (n, channels, size, size) -> (n, width)
    """

    has_pretrained_weights = False

    def __init__(self, *, size: int, channels: int, base: int = 16, layers: int = 3) -> None:
        super().__init__()
        for name, value in (("channels", channels), ("base", base), ("layers", layers)):
            check_count("ConvNet", name, value)
        check_count("ConvNet", "size", size, at_least=2**layers)
        self.size, self.channels, self.base, self.layers = size, channels, base, layers
        blocks: list[nn.Module] = []
        incoming = channels
        for layer in range(layers):
            outgoing = base * 2**layer
            blocks += [
                nn.Conv2d(incoming, outgoing, kernel_size=3, padding=1, bias=False),
                nn.BatchNorm2d(outgoing),
                nn.MaxPool2d(2),
                nn.ReLU(),  # the same function before the pooling, for four times the work
            ]
            incoming = outgoing
        self.blocks = nn.Sequential(*blocks)
        self.width = incoming * (size // 2**layers) ** 2
        # A third less time for a training step on a CPU.
        self.to(memory_format=torch.channels_last)

    def forward(self, images: Tensor) -> Tensor:
        """Return the flattened last map: positions matter on small images."""
        return self.blocks(channels_last(images)).flatten(1)

    def steps(self) -> list[Step]:
        """Return the blocks and the flattening; "blocks.1" is the second block."""
        size = len(self.blocks) // self.layers
        blocks: list[Step] = [
            (f"blocks.{layer}", self.blocks[size * layer : size * (layer + 1)]) for layer in range(self.layers)
        ]
        return [*blocks, ("flatten", nn.Flatten())]
