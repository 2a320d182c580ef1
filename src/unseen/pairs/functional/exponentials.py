"""Exponentials under a mask: log-sum-exp with and without the one, softmax weights, soft maximum and minimum.

None of them overflows. A row without a selected entry yields 0 and has no gradient.
"""

import math
from typing import Any

import torch
from torch import Tensor

from unseen.pairs.functional.autograd import first_order
from unseen.pairs.functional.masks import as_numbers, fill_outside

LOG2_E = math.log2(math.e)
"""exp(x) is exp2(LOG2_E x); exp is up to forty times slower than exp2 where it underflows, as for most pairs."""

SAFE_EXPONENT = 70.0
"""Sums of exponentials of smaller numbers neither overflow nor vanish in float32, so they need no row maximum."""

Numbers = float | tuple[float, float]
Masks = Tensor | tuple[Tensor, Tensor]
"""A mask, n x m, or two at once, which take half as many operations as one after the other."""


def _stacked(numbers: Tensor | Numbers, values: Tensor) -> Tensor | float:
    """Two numbers, for two masks, as a tensor that broadcasts with 2 x n x m; anything else unchanged."""
    return values.new_tensor(numbers).view(2, 1, 1) if isinstance(numbers, tuple) else numbers


def _largest(numbers: Numbers) -> float:
    return max(map(abs, numbers)) if isinstance(numbers, tuple) else abs(numbers)


def _stable_sums(exponents: Tensor, mask: Tensor | None, *, with_one: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """Powers of 2 and their sums over the last dimension, divided by the largest power of the row, and its exponent."""
    if mask is not None:
        exponents = fill_outside(exponents, mask)
    top = exponents.amax(-1, keepdim=True)
    top = top.clamp_(min=0) if with_one else top.nan_to_num_(neginf=0)
    powers = exponents.sub_(top).exp2_()
    total = powers.sum(-1, keepdim=True)
    # The largest power is 1, so a sum below 1 is an empty one.
    return powers, total.add_(top.neg().exp2_()) if with_one else total.clamp_(min=1), top


def masked_softmax(logits: Tensor, mask: Tensor, *, with_one: bool = False) -> tuple[Tensor, Tensor]:
    """Per row log(sum of exp(logit) over the mask), n x 1, and the softmax weights of the entries, n x m.

    `with_one` adds 1 to the sum, so that the weights add up to less than 1. Where the mask is empty both are 0.
    """
    exponentials, total, top = _stable_sums(logits * LOG2_E, mask, with_one=with_one)
    return total.log().add_(top, alpha=1 / LOG2_E), exponentials.div_(total)


class _LogSumExp(torch.autograd.Function):
    """The gradient is the share of the exponentials in their sum."""

    @staticmethod
    def forward(
        context: Any,
        values: Tensor,
        masks: Masks,
        scale: Numbers,
        center: Tensor | Numbers,
        weights: Tensor | None,
        largest: float,
        with_one: bool,
    ) -> Tensor:
        context.is_pair, context.has_center = isinstance(masks, tuple), isinstance(center, Tensor)
        mask = torch.stack(masks) if isinstance(masks, tuple) else masks
        if weights is not None or isinstance(center, Tensor):
            bound = math.inf
        else:
            bound = _largest(scale) * (largest + _largest(center))
        factor, offset = _stacked(scale, values), _stacked(center, values)
        exponents = values - offset if isinstance(offset, Tensor) or offset else values
        exponents = exponents * (factor * LOG2_E)
        if weights is not None:
            exponents *= weights
        if bound <= SAFE_EXPONENT:
            exponentials = exponents.exp2_().mul_(as_numbers(mask, values.dtype))
            total = exponentials.sum(-1, keepdim=True)
            total = total.add_(1) if with_one else total.add_(total == 0)
            log_total = total.log()
        else:
            exponentials, total, top = _stable_sums(exponents, mask, with_one=with_one)
            log_total = total.log().add_(top, alpha=1 / LOG2_E)
        context.factor = factor
        context.save_for_backward(exponentials, total, weights)
        return log_total.squeeze(-1)

    @staticmethod
    @first_order("log_sum_exp")
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        exponentials, total, weights = context.saved_tensors
        gradient = gradient.unsqueeze(-1) / total
        if isinstance(context.factor, Tensor) or context.factor != 1:
            gradient *= context.factor
        slope = exponentials * gradient
        if weights is not None:
            slope *= weights
        if context.is_pair:
            slope = slope.sum(0)
        to_center = slope.sum(1, keepdim=True).neg_() if context.has_center else None
        return slope, None, None, to_center, None, None, None


def log_sum_exp(
    values: Tensor,
    mask: Masks,
    *,
    scale: Numbers = 1.0,
    center: Tensor | Numbers = 0.0,
    weights: Tensor | None = None,
    largest: float = math.inf,
) -> Tensor:
    """Per row log(sum over the mask of exp(scale x weight x (value - center))); 0 where the mask is empty.

    `scale` may be negative. `center` is a number, or a column with one for each row, which gets a gradient too.
    `weights` are constants for the gradient. `largest` is a bound of |value| where one is known, which saves time.
    With two masks `scale`, `center` and `weights` (2 x n x m) may differ between them, and the result is 2 x n.
    """
    return _LogSumExp.apply(values, mask, scale, center, weights, largest, False)


def log1p_sum_exp(
    values: Tensor,
    mask: Masks,
    *,
    scale: Numbers = 1.0,
    center: Tensor | Numbers = 0.0,
    weights: Tensor | None = None,
    largest: float = math.inf,
) -> Tensor:
    """Per row log(1 + sum over the mask of exp(scale x weight x (value - center))); arguments as in `log_sum_exp`."""
    return _LogSumExp.apply(values, mask, scale, center, weights, largest, True)


class _SoftExtreme(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, values: Tensor, masks: Masks | None, scale: Numbers, detach_weights: bool) -> Tensor:
        context.detach_weights, context.is_pair = detach_weights, isinstance(masks, tuple)
        mask = torch.stack(masks) if isinstance(masks, tuple) else masks
        context.factor = _stacked(scale, values)
        weights, total, _ = _stable_sums(values * (context.factor * LOG2_E), mask)
        weights /= total
        mean = (weights * values).sum(-1, keepdim=True)
        context.save_for_backward(values, weights, mean)
        return mean.squeeze(-1)

    @staticmethod
    @first_order("soft_maximum")
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        values, weights, mean = context.saved_tensors
        slope = weights * gradient.unsqueeze(-1)
        if not context.detach_weights:
            # A value moves its weight too, by how far it is from the weighted mean.
            slope *= (values - mean).mul_(context.factor).add_(1)
        return slope.sum(0) if context.is_pair else slope, None, None, None


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


def soft_extremes(
    values: Tensor, masks: tuple[Tensor, Tensor], *, temperature: float, detach_weights: bool = False
) -> Tensor:
    """`soft_maximum` under the first mask and `soft_minimum` under the second, 2 x n."""
    return _SoftExtreme.apply(values, masks, (1 / temperature, -1 / temperature), detach_weights)
