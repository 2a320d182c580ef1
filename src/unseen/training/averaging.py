"""An exponential moving average of the trained weights, which replaces them at validation and at the end of a run."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class WeightAverage:
    r"""The moving average of a model's parameters and floating-point buffers.

    .. math:: \bar w_t = d_t\, \bar w_{t-1} + (1 - d_t)\, w_t, \qquad d_t = \min\bigl(d, \tfrac{1 + t}{10 + t}\bigr)

    ===========  =============================================================================================
    w_t          weights after step t = 1, 2, ...; the average starts at the weights before the first step
    d            ``decay``; it grows to this value, so that a short run does not keep its start
    ===========  =============================================================================================

    Integer buffers, such as counts of batches, are those of the last step.

    Reference:  Tarvainen and Valpola, Mean teachers are better role models, NeurIPS 2017, arXiv:1703.01780
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model, self.decay = model, decay
        self.weights = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}

    def update(self, step: int) -> None:
        """Take in the weights after a step, counted from 1."""
        share = 1 - min(self.decay, (1 + step) / (10 + step))
        averages, current = [], []
        for name, tensor in self.model.state_dict().items():
            if tensor.is_floating_point():
                averages.append(self.weights[name])
                current.append(tensor)
            else:
                self.weights[name].copy_(tensor)
        torch._foreach_lerp_(averages, current, share)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Let the model have the averaged weights; afterwards it has its own again, bit for bit."""
        own = {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}
        self.model.load_state_dict(self.weights)
        try:
            yield
        finally:
            self.model.load_state_dict(own)

    def restore(self, weights: dict[str, Tensor]) -> None:
        """Continue from the averages of a checkpoint."""
        for name, tensor in weights.items():
            self.weights[name].copy_(tensor)
