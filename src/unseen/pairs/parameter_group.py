"""Parameter groups that a loss declares for the optimizer."""

from collections.abc import Sequence
from typing import TypedDict

from torch import Tensor


class ParameterGroup(TypedDict):
    """Parameters of a loss itself, with their learning rate and weight decay; None takes those of the optimizer."""

    params: Sequence[Tensor]
    lr: float | None
    weight_decay: float | None
