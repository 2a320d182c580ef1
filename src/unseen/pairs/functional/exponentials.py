"""Exponentials under a mask: log-sum-exp with and without the one, softmax weights, soft maximum and minimum.

None of them overflows. A row without a selected entry yields 0 and has no gradient.
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unseen.pairs.functional.autograd import first_order
from unseen.pairs.functional.masks import as_numbers, fill_outside

LOG2_E = math.log2(math.e)
"""exp(x) is exp2(LOG2_E x); exp is up to forty times slower than exp2 where it underflows, as for most pairs."""


SAFE_EXPONENT = 40.0
"""Sums of exponentials of smaller numbers neither overflow nor vanish in float32, so they need no row maximum."""


class Exponents(NamedTuple):
    """scale x weight x (value - center), the exponents of `log_sum_exp`."""

    scale: float = 1.0
    center: Tensor | float = 0.0
    weights: Tensor | None = None
    largest: float | None = None


def _sums(values: Tensor, mask: Tensor, exponents: Exponents, *, with_one: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Exponentials, n x m, up to a factor for each row; their sums, n x 1, with the same factor; the logs of the sums.

    The factor makes the largest exponential of a row 1, unless it is known that no exponent can be large.
    """
    scale, center, weights, largest = exponents
    bound = math.inf
    if largest is not None and weights is None and not isinstance(center, Tensor):
        bound = abs(scale) * (largest + abs(center))
    if bound <= SAFE_EXPONENT:
        exponentials = values * (scale * LOG2_E)
        if center:
            exponentials -= scale * LOG2_E * center
        exponentials.exp2_().mul_(as_numbers(mask, values.dtype))
        total = exponentials.sum(1, keepdim=True)
        total = total.add_(1) if with_one else total.add_(total == 0)
        return exponentials, total, total.log()
    if weights is not None:
        values, center = (values - center).mul_(weights), 0.0
    extreme = -torch.inf if scale > 0 else torch.inf
    selected = fill_outside(values, mask, extreme)
    top = selected.amax(1, keepdim=True) if scale > 0 else selected.amin(1, keepdim=True)
    if not with_one:
        top = torch.where(top == extreme, center, top)
    elif isinstance(center, Tensor):
        top = torch.maximum(top, center) if scale > 0 else torch.minimum(top, center)
    else:
        top = top.clamp_(min=center) if scale > 0 else top.clamp_(max=center)
    exponentials = selected.sub_(top).mul_(scale * LOG2_E).exp2_()
    top_exponent = (top - center).mul_(scale)
    total = exponentials.sum(1, keepdim=True)
    # The largest exponential is 1, so a sum below 1 is an empty one.
    total = total.add_(top_exponent.neg().exp_()) if with_one else total.clamp_(min=1)
    return exponentials, total, total.log().add_(top_exponent)


def masked_softmax(logits: Tensor, mask: Tensor, *, with_one: bool = False) -> tuple[Tensor, Tensor]:
    """Per row log(sum of exp(logit) over the mask), n x 1, and the softmax weights of the entries, n x m.

    `with_one` adds 1 to the sum, so that the weights add up to less than 1. Where the mask is empty both are 0.
    """
    exponentials, total, log_total = _sums(logits, mask, Exponents(), with_one=with_one)
    return log_total, exponentials.div_(total)


class _LogSumExp(torch.autograd.Function):
    """The gradient is the share of the exponentials in their sum."""

    @staticmethod
    def forward(
        context: Any, values: Tensor, mask: Tensor, center: Tensor | float, exponents: Exponents, with_one: bool
    ) -> Tensor:
        exponentials, total, log_total = _sums(values, mask, exponents, with_one=with_one)
        context.scale, context.has_center = exponents.scale, isinstance(center, Tensor)
        context.save_for_backward(exponentials, total, exponents.weights)
        return log_total.squeeze(1)

    @staticmethod
    @first_order("log_sum_exp")
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        exponentials, total, weights = context.saved_tensors
        if context.scale != 1:
            gradient = gradient * context.scale
        slope = exponentials * (gradient.unsqueeze(1) / total)
        if weights is not None:
            slope *= weights
        return slope, None, slope.sum(1, keepdim=True).neg_() if context.has_center else None, None, None


def log_sum_exp(
    values: Tensor,
    mask: Tensor,
    *,
    scale: float = 1.0,
    center: Tensor | float = 0.0,
    weights: Tensor | None = None,
    largest: float | None = None,
) -> Tensor:
    """Per row log(sum over the mask of exp(scale x weight x (value - center))); 0 where the mask is empty.

    `scale` may be negative. `center` is a number, or a column with one for each row, which gets a gradient too.
    `weights` are constants for the gradient. `largest` is a bound of |value| where one is known, which saves time.
    """
    return _LogSumExp.apply(values, mask, center, Exponents(scale, center, weights, largest), False)


def log1p_sum_exp(
    values: Tensor,
    mask: Tensor,
    *,
    scale: float = 1.0,
    center: Tensor | float = 0.0,
    weights: Tensor | None = None,
    largest: float | None = None,
) -> Tensor:
    """Per row log(1 + sum over the mask of exp(scale x weight x (value - center))); arguments as in `log_sum_exp`."""
    return _LogSumExp.apply(values, mask, center, Exponents(scale, center, weights, largest), True)


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
