"""A small convolutional network for small images, trained from scratch."""

import torch
from torch import Tensor, nn

from unseen.core.checks import check_count
from unseen.core.registry import backbone
from unseen.models.split_backbone import Step, channels_last


@backbone("convnet")
class ConvNet(nn.Module):
    """Blocks of convolution, batch norm, ReLU and 2 x 2 pooling, then the flattened last map as features.

    ============  ==============================================================
    size          side of the square input in pixels, a multiple of 2^layers
    channels      1 for grey, 3 for colour
    base          channels of the first block; each further block doubles them
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
                nn.ReLU(),
                nn.MaxPool2d(2),
            ]
            incoming = outgoing
        self.blocks = nn.Sequential(*blocks)
        self.width = incoming * (size // 2**layers) ** 2
        # Channels beside each other in memory: a third less time for a step on a CPU.
        self.to(memory_format=torch.channels_last)

    def forward(self, images: Tensor) -> Tensor:
        """Features of the images, flattened: where a stroke lies matters on small images."""
        return self.blocks(channels_last(images)).flatten(1)

    def steps(self) -> list[Step]:
        """The steps of a forward pass, for a cut; "blocks.1" is the second block."""
        each = len(self.blocks) // self.layers
        parts = [self.blocks[each * layer : each * (layer + 1)] for layer in range(self.layers)]
        blocks: list[Step] = [(f"blocks.{layer}", part) for layer, part in enumerate(parts)]
        return [*blocks, ("flatten", nn.Flatten())]
