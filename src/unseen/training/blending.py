"""Blending: the final weights lie between those before training and the trained ones."""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

Weights = dict[str, Tensor]

SHARES = tuple(tenths / 10 for tenths in range(11))
"""The shares of the trained weights that "auto" compares."""


def blend_weights(start: Weights, trained: Weights, share: float) -> Weights:
    """(1 - share) * start + share * trained for every tensor; integer buffers are the trained ones.

    A share of 0 or 1 returns the start or the trained weights bit for bit.
    """
    return {
        name: torch.lerp(start[name], tensor, share) if tensor.is_floating_point() else tensor
        for name, tensor in trained.items()
    }


class Blend:
    """Blends a trained model with its weights before training, by a stated share or by the best on validation classes.

    ===========  =============================================================================================
    share        share of the trained weights, 0 to 1; "auto" tries 0, 0.1, ..., 1
    start        the weights before training
    ===========  =============================================================================================

    Training on some classes costs accuracy on distant ones; weights between the start and the trained ones often have
    most of what was gained on the near classes, and lose less on the distant ones.

    Reference:  Wortsman et al., Robust fine-tuning of zero-shot models, CVPR 2022, arXiv:2109.01903
    """

    def __init__(self, model: nn.Module, share: float | Literal["auto"]) -> None:
        self.model, self.share = model, share
        self.start: Weights = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}

    def restore(self, start: Weights) -> None:
        """Take the start from a checkpoint: the model may have been trained since."""
        for name, tensor in start.items():
            self.start[name].copy_(tensor)

    def apply(self, score_of: Callable[[nn.Module], float], *, known: dict[float, float]) -> dict[str, object]:
        """Blend the model's weights in place; returns the share and, for "auto", the validation score of every share.

        `known` holds the scores of shares that were validated before. Of equally good shares the largest is taken.
        """
        trained = {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}
        if self.share != "auto":
            self.model.load_state_dict(blend_weights(self.start, trained, self.share))
            return {"share": self.share, "scores": None}
        scores = dict(known)
        for share in SHARES:
            if share not in scores:
                self.model.load_state_dict(blend_weights(self.start, trained, share))
                scores[share] = score_of(self.model.eval())
        best = max(SHARES, key=lambda share: (scores[share], share))
        self.model.load_state_dict(blend_weights(self.start, trained, best))
        return {"share": best, "scores": {str(share): scores[share] for share in SHARES}}
