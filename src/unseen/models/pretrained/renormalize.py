"""Images of one normalisation as a network expects them that was trained with another."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

Normalization = tuple[Sequence[float], Sequence[float]]


class Renormalize(nn.Module):
    r"""Convert images from one mean and standard deviation per channel to another.

    .. math:: x \frac{\sigma_1}{\sigma_2} + \frac{\mu_1 - \mu_2}{\sigma_2}

    ==============  ========================================================
    mu_1, sigma_1   of the inputs, for red, green and blue in [0, 1]
    mu_2, sigma_2   of the outputs
    ==============  ========================================================

    Shape:  (n, 3, height, width) -> the same
    """

    factor: Tensor
    shift: Tensor

    def __init__(self, inputs: Normalization, outputs: Normalization) -> None:
        super().__init__()
        (mean, std), (new_mean, new_std) = (
            [torch.tensor(list(values), dtype=torch.float64).reshape(3, 1, 1) for values in normalization]
            for normalization in (inputs, outputs)
        )
        self.register_buffer("factor", (std / new_std).float(), persistent=False)
        self.register_buffer("shift", ((mean - new_mean) / new_std).float(), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Return the converted images."""
        return images * self.factor + self.shift
