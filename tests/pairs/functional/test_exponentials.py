"""Sums of exponentials and soft extremes against plain autograd, at extreme values and over empty masks."""

import math

import pytest
import torch

from tests.pairs.functional.plain import assert_same_as_autograd, random_mask, random_matrix
from unseen.pairs.functional import (
    log1p_sum_exp,
    log_sum_exp,
    masked_softmax,
    soft_extremes,
    soft_maximum,
    soft_minimum,
)
from unseen.pairs.functional.exponentials import SAFE_EXPONENT

BLOCKS = {0.0: log_sum_exp, 1.0: log1p_sum_exp}
VALUES, MASK = random_matrix(0, 7, 9) * 2 - 1, random_mask(1, 7, 9)


def plain_log_sum(exponents, mask, one):
    """log(one + sum of exp), and 0 for an empty sum without the one."""
    total = (exponents.exp() * mask).sum(1) + one
    return torch.where(total == 0, 0.0, torch.where(total == 0, 1.0, total).log())


@pytest.mark.parametrize("one", BLOCKS)
@pytest.mark.parametrize("largest", [math.inf, 1.0])
@pytest.mark.parametrize(("scale", "center"), [(1.0, 0.0), (-2.0, 0.5), (30.0, 0.3), (-30.0, -0.3), (1e-3, 0.1)])
def test_log_sums_equal_plain_autograd_for_every_scale_and_center(one, largest, scale, center):
    assert_same_as_autograd(
        lambda x: BLOCKS[one](x, MASK, scale=scale, center=center, largest=largest),
        lambda x: plain_log_sum(scale * (x - center), MASK, one),
        VALUES,
    )


@pytest.mark.parametrize("one", BLOCKS)
@pytest.mark.parametrize("scale", [3.0, -3.0])
def test_a_center_for_each_row_gets_its_gradient_and_weights_are_constants(one, scale):
    weights = random_matrix(2, 7, 9)
    assert_same_as_autograd(
        lambda x, center: BLOCKS[one](x, MASK, scale=scale, center=center),
        lambda x, center: plain_log_sum(scale * (x - center), MASK, one),
        VALUES,
        random_matrix(3, 7, 1),
    )
    assert_same_as_autograd(
        lambda x: BLOCKS[one](x, MASK, scale=scale, center=0.2, weights=weights),
        lambda x: plain_log_sum(scale * weights * (x - 0.2), MASK, one),
        VALUES,
    )


@pytest.mark.parametrize("one", BLOCKS)
@pytest.mark.parametrize("largest", [math.inf, 1.0])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_two_masks_at_once_equal_one_after_the_other(one, largest, is_weighted):
    masks, scales, centers = (MASK, random_mask(4, 7, 9)), (-2.0, 3.0), (0.5, -0.1)
    weights = random_matrix(2, 2, 7, 9) if is_weighted else torch.ones(2, 7, 9)
    assert_same_as_autograd(
        lambda x: BLOCKS[one](
            x, masks, scale=scales, center=centers, weights=weights if is_weighted else None, largest=largest
        ),
        lambda x: torch.stack(
            [
                plain_log_sum(scale * weight * (x - center), mask, one)
                for mask, scale, center, weight in zip(masks, scales, centers, weights, strict=True)
            ]
        ),
        VALUES,
    )


def test_exponents_too_large_for_a_plain_sum_take_the_stable_way():
    scale = 2 * SAFE_EXPONENT
    assert_same_as_autograd(
        lambda x: log_sum_exp(x, MASK, scale=scale, largest=1.0),
        lambda x: plain_log_sum(scale * x, MASK, 0.0),
        VALUES,
    )
    huge = log_sum_exp(VALUES.float(), MASK, scale=1e4, largest=1.0)
    assert huge.isfinite().all()


def test_stable_sums_equal_the_plain_ones_and_empty_masks_give_zero():
    values = torch.tensor(
        [[1.0, -2.0, 3.0], [0.5, 0.0, -1.0], [4.0, 5.0, 6.0]], dtype=torch.float64, requires_grad=True
    )
    mask = torch.tensor([[1, 1, 0], [0, 1, 0], [0, 0, 0]]).bool()
    total = (values.exp() * mask).sum(1)
    torch.testing.assert_close(log1p_sum_exp(values, mask), (1 + total).log())
    expected = [math.log(x) if x else 0.0 for x in total.tolist()]
    assert log_sum_exp(values, mask).tolist() == pytest.approx(expected)
    for function in (log1p_sum_exp, log_sum_exp):
        (gradient,) = torch.autograd.grad(function(values, mask).sum(), values)
        assert gradient.isfinite().all()
        assert not gradient[~mask].any()


@pytest.mark.parametrize(
    "function", [log1p_sum_exp, log_sum_exp, "soft_maximum", "soft_minimum"], ids=["log1p", "log", "max", "min"]
)
@pytest.mark.parametrize("center", [0.0, 0.7])
def test_rows_of_empty_masks_are_exactly_0_with_any_center(function, center):
    leaf, mask = VALUES.clone().requires_grad_(), torch.zeros_like(MASK)
    if isinstance(function, str):
        value = {"soft_maximum": soft_maximum, "soft_minimum": soft_minimum}[function](leaf, mask, temperature=0.1)
    else:
        value = function(leaf, mask, scale=-3.0, center=center)
    value.sum().backward()
    assert value.tolist() == [0.0] * len(value)
    assert leaf.grad is not None
    assert not leaf.grad.any()


def test_stable_sums_neither_overflow_nor_vanish():
    values = torch.tensor([[1e4, -1e4], [-1e4, -1e4]], requires_grad=True)
    mask = torch.ones(2, 2, dtype=torch.bool)
    for function, second in ((log1p_sum_exp, 0.0), (log_sum_exp, -1e4 + math.log(2))):
        log_total = function(values, mask)
        assert log_total.tolist() == pytest.approx([1e4, second])
        (gradient,) = torch.autograd.grad(log_total.sum(), values)
        assert gradient.isfinite().all()


@pytest.mark.parametrize("with_one", [False, True])
def test_softmax_weights_are_the_slopes_of_the_logs_of_sums(with_one):
    logits = torch.tensor([[1.0, -2.0, 30.0], [0.5, -800.0, -1.0], [4.0, 5.0, 6.0]], dtype=torch.float64)
    mask = torch.tensor([[1, 1, 0], [1, 1, 1], [0, 0, 0]]).bool()
    log_total, weights = masked_softmax(logits.clone(), mask, with_one=with_one)
    leaf = logits.clone().requires_grad_()
    total = (leaf.exp() * mask).sum(1) + with_one
    expected = total.masked_fill(total == 0, 1).log()
    torch.testing.assert_close(log_total.squeeze(1), expected.detach())
    expected.sum().backward()
    torch.testing.assert_close(weights, leaf.grad)
    assert torch.autograd.gradcheck(lambda x: log1p_sum_exp(x, mask), [logits.clone().requires_grad_()])
    assert torch.autograd.gradcheck(lambda x: log_sum_exp(x, mask), [logits.clone().requires_grad_()])


def test_softmax_weights_add_up_to_one():
    log_total, weights = masked_softmax(VALUES, MASK)
    plain = (VALUES.exp() * MASK).sum(1, keepdim=True)
    torch.testing.assert_close(weights.sum(1), MASK.any(1).double())
    torch.testing.assert_close(log_total, torch.where(plain == 0, 0.0, plain.log()))


def plain_soft_extreme(values, mask, sharpness, *, is_constant=False):
    logits = (sharpness * values).masked_fill(~mask, -torch.inf).masked_fill(~mask.any(-1, keepdim=True), 0)
    weights = logits.softmax(-1) * mask
    return ((weights.detach() if is_constant else weights) * values).sum(-1)


@pytest.mark.parametrize("temperature", [0.05, 0.5, 100.0])
@pytest.mark.parametrize("is_constant", [False, True])
@pytest.mark.parametrize("sign", [1, -1])
def test_soft_extremes_equal_plain_autograd(temperature, is_constant, sign):
    block = soft_maximum if sign > 0 else soft_minimum
    assert_same_as_autograd(
        lambda x: block(x, MASK, temperature=temperature, detach_weights=is_constant),
        lambda x: plain_soft_extreme(x, MASK, sign / temperature, is_constant=is_constant),
        VALUES,
    )


@pytest.mark.parametrize("is_constant", [False, True])
def test_both_soft_extremes_at_once_equal_one_after_the_other(is_constant):
    masks = (MASK, random_mask(4, 7, 9))
    assert_same_as_autograd(
        lambda x: soft_extremes(x, masks, temperature=0.2, detach_weights=is_constant),
        lambda x: torch.stack(
            [
                plain_soft_extreme(x, mask, sign / 0.2, is_constant=is_constant)
                for mask, sign in zip(masks, (1, -1), strict=True)
            ]
        ),
        VALUES,
    )


def test_soft_extremes_without_a_mask_take_the_last_dimension_of_a_stack():
    stack = random_matrix(5, 4, 3, 5)
    everything = torch.ones_like(stack, dtype=torch.bool)
    assert_same_as_autograd(
        lambda x: soft_maximum(x, temperature=0.1), lambda x: plain_soft_extreme(x, everything, 10.0), stack
    )


def test_soft_extremes_tend_to_the_extremes_and_to_the_mean():
    for block, extreme in ((soft_maximum, VALUES.amax(1)), (soft_minimum, VALUES.amin(1))):
        torch.testing.assert_close(block(VALUES, temperature=1e-6), extreme)
        torch.testing.assert_close(block(VALUES, temperature=1e9), VALUES.mean(1))
    huge = torch.tensor([[1e30, -1e30]], requires_grad=True)
    soft_maximum(huge, temperature=1e-3).sum().backward()
    assert huge.grad is not None
    assert huge.grad.isfinite().all()
