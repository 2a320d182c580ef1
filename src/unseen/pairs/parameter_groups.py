"""The parameter groups that losses and methods declare, in the form that torch's optimizers take."""

from typing import TypedDict

from torch import nn


class ParameterGroup(TypedDict):
    """Parameters with their own learning rate and weight decay; None: those of the optimizer."""

    params: list[nn.Parameter]
    lr: float | None
    weight_decay: float | None
