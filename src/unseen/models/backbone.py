"""What every backbone states about itself, and the simplest one: the identity."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from unseen.core.registry import backbone

Step = tuple[str, nn.Module]


class Backbone(nn.Module):
    """A network from inputs to pooled features, one row per input.

    ========================  =================================================================
    width                     number of features
    has_pretrained_weights    False if it starts from random weights
    ========================  =================================================================
    """

    width: int
    has_pretrained_weights: bool

    def steps(self) -> list[Step]:
        """Return the named steps of a forward pass, by which the backbone can be split."""
        return child_steps(self)


@backbone("identity")
class Identity(Backbone):
    """Flattened inputs: cached features as they are; images as vectors of pixels, a baseline.

    Shape: (n, *input_shape) -> (n, product of input_shape)
    """

    has_pretrained_weights = False

    def __init__(self, *, input_shape: Sequence[int]) -> None:
        super().__init__()
        self.input_shape = tuple(input_shape)
        self.width = math.prod(self.input_shape)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the inputs as rows."""
        return inputs.flatten(1)


def channels_last(inputs: Tensor) -> Tensor:
    """Return images or feature maps in the memory format channels_last: a third less time on a CPU."""
    return inputs.contiguous(memory_format=torch.channels_last) if inputs.ndim == 4 else inputs


def child_steps(module: nn.Module) -> list[Step]:
    """Return a module's named children in order, each `Sequential` among them replaced by its own children."""
    steps: list[Step] = []
    for name, child in module.named_children():
        if isinstance(child, nn.Sequential) and type(child).forward is nn.Sequential.forward and len(child):
            steps += [(f"{name}.{inner}", step) for inner, step in child.named_children()]
        else:
            steps.append((name, child))
    return steps
