"""The parameters that a loss or a method declares to the optimizer."""

from typing import TypedDict

from torch import nn


class ParameterGroup(TypedDict):
    """Parameters with their own learning rate and weight decay; None is the optimizer's."""

    params: list[nn.Parameter]
    lr: float | None
    weight_decay: float | None
