"""The identity backbone: for cached features, and for raw pixels as a baseline."""

import math
from collections.abc import Sequence

from torch import Tensor

from unseen.core.registry import backbone
from unseen.models.backbone import Backbone


@backbone("identity")
class Identity(Backbone):
    """Flattened inputs: cached features as they are, images as vectors of pixels.

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
