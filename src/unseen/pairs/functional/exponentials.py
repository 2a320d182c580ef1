"""Exponentials under a mask: log-sum-exp with and without the one, softmax weights, soft maximum and minimum.

None of them overflows. A row without a selected entry yields 0 and has no gradient.
"""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unseen.pairs.functional.autograd import first_order
from unseen.pairs.functional.masks import as_numbers, fill_outside
from unseen.pairs.functional.small import flags, floats, is_small
from unseen.pairs.kernels.arrays import Float32s

LOG2_E = math.log2(math.e)
"""exp(x) is exp2(LOG2_E x); exp is up to forty times slower than exp2 where it underflows, as for most pairs."""

SAFE_EXPONENT = 70.0
"""Sums of exponentials of smaller numbers neither overflow nor vanish in float32, so they need no row maximum."""

NO_WEIGHTS = np.empty((0, 0, 0), np.float32)

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
    if is_small(logits):
        log_total, weights = _small_sums(logits, mask, np.ones(1, np.float32), 0.0, None, with_one)
        return log_total[0].unsqueeze(1), weights[0]
    exponentials, total, top = _stable_sums(logits * LOG2_E, mask, with_one=with_one)
    return total.log().add_(top, alpha=1 / LOG2_E), exponentials.div_(total)


def _numbers(numbers: Numbers, masks: Masks | None) -> Float32s:
    """One number for each mask."""
    return np.array(numbers if isinstance(numbers, tuple) else (numbers,) * _groups(masks), np.float32)


def _groups(masks: Masks | None) -> int:
    return len(masks) if isinstance(masks, tuple) else 1


def _small_exponents(
    values: Tensor, factors: Float32s, center: Tensor | Numbers, weights: Tensor | None
) -> tuple[Tensor, Float32s]:
    """Exponents of 2, groups x n x m, by compiled loops; and their memory as an array."""
    from unseen.pairs.kernels.exponentials import set_exponents

    exponents = values.new_empty(len(factors), *values.shape)
    if isinstance(center, Tensor):
        centers = np.broadcast_to(floats(center).reshape(1, -1), (len(factors), len(values))).copy()
    else:
        centers = np.empty((len(factors), len(values)), np.float32)
        centers.T[:] = center
    numbers = exponents.numpy()
    set_exponents(floats(values), centers, factors, _stack_of(weights, values), numbers)
    return exponents, numbers


def _stack_of(weights: Tensor | None, values: Tensor) -> Float32s:
    """Weights as groups x n x m; empty if there are none."""
    return NO_WEIGHTS if weights is None else floats(weights).reshape(-1, *values.shape)


def _small_sums(
    values: Tensor, masks: Masks, factors: Float32s, center: Tensor | Numbers, weights: Tensor | None, with_one: bool
) -> tuple[Tensor, Tensor]:
    """Log-sum-exp by compiled loops, groups x n, and the shares of the entries, groups x n x m."""
    from unseen.pairs.kernels.exponentials import soft_maxima

    exponents, numbers = _small_exponents(values, factors, center, weights)
    log_total = values.new_empty(numbers.shape[:2])
    soft_maxima(numbers, flags(_one_or_stacked(masks)), with_one, log_total.numpy())
    return log_total, exponents


def _one_or_stacked(masks: Masks) -> Tensor:
    return torch.stack(masks) if isinstance(masks, tuple) else masks.unsqueeze(0)


def _small_slopes(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    from unseen.pairs.kernels.exponentials import add_slopes

    shares, weights = context.saved_tensors
    slope, row_sums = shares.new_empty(shares.shape[1:]), shares.new_empty(shares.shape[1], 1)
    upstream = floats(gradient if context.is_pair else gradient.unsqueeze(0))
    stacked = _stack_of(weights, slope)
    add_slopes(floats(shares), upstream, context.factors, stacked, slope.numpy(), row_sums.numpy())
    return slope, None, None, row_sums.neg_() if context.has_center else None, None, None, None


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
        context.is_small = values.ndim == 2 and is_small(values)
        if context.is_small:
            context.factors = _numbers(scale, masks)
            log_total, shares = _small_sums(values, masks, context.factors, center, weights, with_one)
            context.save_for_backward(shares, weights)
            return log_total if context.is_pair else log_total[0]
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
        if context.is_small:
            return _small_slopes(context, gradient)
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
        context.is_small = values.ndim == 2 and is_small(values)
        if context.is_small:
            from unseen.pairs.kernels.exponentials import weighted_row_sums

            masks = torch.ones_like(values, dtype=torch.bool) if masks is None else masks
            context.factors = _numbers(scale, masks)
            mean, weights = _small_sums(values, masks, context.factors, 0.0, None, False)
            weighted_row_sums(weights.numpy(), floats(values), mean.numpy())
            context.save_for_backward(values, weights, mean)
            return mean if context.is_pair else mean[0]
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
        if context.is_small:
            from unseen.pairs.kernels.exponentials import soft_extreme_slopes

            slope = torch.empty_like(values)
            upstream = floats(gradient if context.is_pair else gradient.unsqueeze(0))
            factors = np.zeros_like(context.factors) if context.detach_weights else context.factors
            soft_extreme_slopes(floats(values), floats(weights), floats(mean), upstream, factors, slope.numpy())
            return slope, None, None, None
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
