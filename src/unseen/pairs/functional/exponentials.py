"""Exponentials under a mask: log-sum-exp with and without the one, softmax weights, soft maximum and minimum.

None overflows, and exponentials that vanish cost no time. A dimension without a selected entry yields 0 and no gradient.
"""

import math
from typing import Any

import torch
from torch import Tensor

from unseen.pairs.functional.autograd import first_order
from unseen.pairs.functional.masks import fill_outside

LOG2_E = math.log2(math.e)
"""exp(x) is exp2(LOG2_E x); exp takes up to forty times as long as exp2 where it vanishes, as it does for most pairs."""


def masked_softmax(logits: Tensor, mask: Tensor, dim: int = 1, *, with_one: bool = False) -> tuple[Tensor, Tensor]:
    """log(sum of exp(logit) over the mask) along a dimension, which is kept, and the softmax weights of the entries.

    `with_one` adds 1 to the sum, so that the weights add up to less than 1. Overwrites the logits. Where the mask is
    empty the log and the weights are 0.
    """
    largest = logits.masked_fill_(~mask, -torch.inf).amax(dim, keepdim=True)
    largest = largest.clamp_(min=0) if with_one else largest.masked_fill_(largest == -torch.inf, 0)
    exponentials = logits.sub_(largest).mul_(LOG2_E).exp2_()
    total = exponentials.sum(dim, keepdim=True)
    # The largest exponential is 1, so a sum below 1 is an empty one.
    total = total.add_(largest.neg().exp_()) if with_one else total.clamp_(min=1)
    return largest + total.log(), exponentials.div_(total)


class _LogSumExp(torch.autograd.Function):
    """Keeps the exponentials, relative to the largest of each row; the gradient is their share of the sum."""

    @staticmethod
    def forward(
        context: Any,
        values: Tensor,
        mask: Tensor,
        center: Tensor | float,
        scale: float,
        weights: Tensor | None,
        with_one: bool,
    ) -> Tensor:
        extreme = -torch.inf if scale > 0 else torch.inf
        if weights is None:
            selected, middle = fill_outside(values, mask, extreme), center
        else:
            selected, middle = fill_outside((values - center).mul_(weights), mask, extreme), 0.0
        # The values with the largest exponents, at least that of the one.
        top = selected.amax(1, keepdim=True) if scale > 0 else selected.amin(1, keepdim=True)
        if not with_one:
            top = torch.where(top == extreme, middle, top)
        elif isinstance(middle, Tensor):
            top = torch.maximum(top, middle) if scale > 0 else torch.minimum(top, middle)
        else:
            top = top.clamp_(min=middle) if scale > 0 else top.clamp_(max=middle)
        exponentials = selected.sub_(top).mul_(scale * LOG2_E).exp2_()
        largest = (top - middle).mul_(scale)
        total = exponentials.sum(1, keepdim=True)
        # The largest exponential is 1, so a sum below 1 is an empty one.
        total = total.add_(largest.neg().exp_()) if with_one else total.clamp_(min=1)
        context.scale, context.has_center = scale, isinstance(center, Tensor)
        context.save_for_backward(exponentials, total, weights)
        return total.log().add_(largest).squeeze(1)

    @staticmethod
    @first_order("log_sum_exp")
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        exponentials, total, weights = context.saved_tensors
        slope = exponentials * (gradient.unsqueeze(1) * context.scale).div_(total)
        if weights is not None:
            slope *= weights
        to_center = slope.sum(1, keepdim=True).neg_() if context.has_center else None
        return slope, None, to_center, None, None, None


def log1p_sum_exp(
    values: Tensor, mask: Tensor, *, scale: float = 1.0, center: Tensor | float = 0.0, weights: Tensor | None = None
) -> Tensor:
    """Per row log(1 + sum over the mask of exp(scale x weight x (value - center))); 0 where the mask is empty.

    `center` is a number or a column with one for each row, which gets a gradient too. `weights` are constants for the
    gradient; `scale` may be negative.
    """
    return _LogSumExp.apply(values, mask, center, scale, weights, True)


def log_sum_exp(
    values: Tensor, mask: Tensor, *, scale: float = 1.0, center: Tensor | float = 0.0, weights: Tensor | None = None
) -> Tensor:
    """The same as `log1p_sum_exp` without the 1; 0, without a gradient, where the mask is empty."""
    return _LogSumExp.apply(values, mask, center, scale, weights, False)


class _SoftExtreme(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, values: Tensor, mask: Tensor | None, scale: float, detach_weights: bool) -> Tensor:
        extreme = -torch.inf if scale > 0 else torch.inf
        selected = values.clone() if mask is None else fill_outside(values, mask, extreme)
        top = selected.amax(-1, keepdim=True) if scale > 0 else selected.amin(-1, keepdim=True)
        weights = selected.sub_(top.masked_fill_(top == extreme, 0)).mul_(scale * LOG2_E).exp2_()
        weights /= weights.sum(-1, keepdim=True).clamp_(min=1)  # the largest is 1, so a sum below 1 is an empty one
        mean = (weights * values).sum(-1, keepdim=True)
        context.scale, context.detach_weights = scale, detach_weights
        context.save_for_backward(values, weights, mean)
        return mean.squeeze(-1)

    @staticmethod
    @first_order("soft_maximum")
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        values, weights, mean = context.saved_tensors
        gradient = gradient.unsqueeze(-1)
        if context.detach_weights:
            return weights * gradient, None, None, None
        # A value moves its weight too, by how far it is from the weighted mean.
        return (values - mean).mul_(context.scale).add_(1).mul_(weights).mul_(gradient), None, None, None


def soft_maximum(
    values: Tensor, mask: Tensor | None = None, *, temperature: float, detach_weights: bool = False
) -> Tensor:
    """Mean along the last dimension with weights softmax(value / temperature) over the mask (None: all entries).

    Towards temperature 0 the largest value, at a high temperature the mean. With `detach_weights` the weights are
    constants for the gradient.
    """
    return _SoftExtreme.apply(values, mask, 1 / temperature, detach_weights)


def soft_minimum(
    values: Tensor, mask: Tensor | None = None, *, temperature: float, detach_weights: bool = False
) -> Tensor:
    """The same as `soft_maximum` with weights softmax(-value / temperature)."""
    return _SoftExtreme.apply(values, mask, -1 / temperature, detach_weights)
