"""The pieces that losses are made of, against plain autograd, closed forms and gradcheck."""

import math

import pytest
import torch

from tests.losses.loops import small_batch
from unseen.pairs.functional import (
    distance_of,
    entries,
    inner_products,
    log1p_sum_exp,
    log_sum_exp,
    masked_softmax,
    number,
    unit_vectors,
    weighed_sum,
    with_gradient,
)


@pytest.mark.parametrize("scale", [1e-11, 1.0, 1e30])
def test_unit_vectors_of_any_scale_have_length_one_and_the_gradient_of_the_definition(scale):
    vectors = (small_batch()[0] * scale).requires_grad_()
    weights = small_batch(9)[0]
    (unit_vectors(vectors) * weights).sum().backward()
    torch.testing.assert_close(unit_vectors(vectors).norm(dim=1), torch.ones(10, dtype=torch.float64))
    reference = small_batch()[0].requires_grad_()
    (reference / reference.norm(dim=1, keepdim=True) * weights).sum().backward()
    torch.testing.assert_close(vectors.grad * scale, reference.grad)


def test_unit_vectors_survive_what_overflows_when_squared():
    vectors = torch.full((1, 4), 3e38, requires_grad=True)
    torch.testing.assert_close(unit_vectors(vectors), torch.full((1, 4), 0.5))
    unit_vectors(vectors).sum().backward()
    assert vectors.grad.isfinite().all()


def test_vectors_without_a_direction_stay_zero_and_get_no_gradient():
    vectors = torch.tensor([[0.0, 0.0], [1e-30, -1e-30], [3.0, 4.0]], requires_grad=True)
    unit = unit_vectors(vectors)
    torch.testing.assert_close(unit, torch.tensor([[0.0, 0.0], [0.0, 0.0], [0.6, 0.8]]))
    (unit * torch.tensor([1.0, 2.0])).sum().backward()
    assert not vectors.grad[:2].any()
    assert vectors.grad[2].any()


def test_one_column_has_no_gradient_because_only_the_sign_remains():
    vectors = torch.tensor([[0.3], [-7.0], [1e-3]], requires_grad=True)
    unit_vectors(vectors).sum().backward()
    assert not vectors.grad.any()


def test_products_pass_gradcheck_with_themselves_and_with_others():
    left = small_batch(1)[0].requires_grad_()
    right = small_batch(2)[0].requires_grad_()
    assert torch.autograd.gradcheck(lambda rows: inner_products(rows, rows), [left])
    assert torch.autograd.gradcheck(inner_products, [left, right])
    assert torch.autograd.gradcheck(unit_vectors, [left])


def test_a_second_derivative_is_refused_not_wrong():
    vectors = small_batch(1)[0].requires_grad_()
    (gradient,) = torch.autograd.grad(unit_vectors(vectors).sin().sum(), vectors, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


@pytest.mark.parametrize("dim", [0, 1])
def test_stable_sums_equal_the_plain_ones_and_empty_masks_give_zero(dim):
    values = torch.tensor(
        [[1.0, -2.0, 3.0], [0.5, 0.0, -1.0], [4.0, 5.0, 6.0]], dtype=torch.float64, requires_grad=True
    )
    mask = torch.tensor([[1, 1, 0], [0, 1, 0], [0, 0, 0]]).bool()
    mask = mask if dim == 1 else mask.T
    total = (values.exp() * mask).sum(dim)
    torch.testing.assert_close(log1p_sum_exp(values, mask, dim), (1 + total).log())
    expected = [math.log(x) if x else 0.0 for x in total.tolist()]
    assert log_sum_exp(values, mask, dim).tolist() == pytest.approx(expected)
    for function in (log1p_sum_exp, log_sum_exp):
        (gradient,) = torch.autograd.grad(function(values, mask, dim).sum(), values)
        assert gradient.isfinite().all()
        assert not gradient[~mask].any()


def test_stable_sums_neither_overflow_nor_vanish():
    values = torch.tensor([[1e4, -1e4], [-1e4, -1e4]], requires_grad=True)
    mask = torch.ones(2, 2, dtype=torch.bool)
    for function, second in ((log1p_sum_exp, 0.0), (log_sum_exp, -1e4 + math.log(2))):
        found = function(values, mask)
        assert found.tolist() == pytest.approx([1e4, second])
        (gradient,) = torch.autograd.grad(found.sum(), values)
        assert gradient.isfinite().all()


def test_distances_have_the_slope_of_the_root_and_none_where_they_stop():
    similarity = torch.tensor([-1.0, 0.2, 0.9999, 1.0 + 1e-7], dtype=torch.float64, requires_grad=True)
    plain = similarity.detach().clone().requires_grad_()
    expected = (2 + 1e-8 - 2 * plain).clamp(min=1e-8).sqrt()
    torch.testing.assert_close(distance_of(similarity), expected)
    distance_of(similarity).sum().backward()
    expected.sum().backward()
    torch.testing.assert_close(similarity.grad, plain.grad)
    assert similarity.grad[3] == 0
    again = torch.tensor([1.0, 0.5], requires_grad=True)  # float32 rounds 2 + 1e-8 to 2
    distance_of(again).sum().backward()
    assert again.grad.tolist() == pytest.approx([0.0, -1.0])


@pytest.mark.parametrize("with_one", [False, True])
def test_shares_are_the_slopes_of_the_logs_of_sums(with_one):
    logits = torch.tensor([[1.0, -2.0, 30.0], [0.5, -800.0, -1.0], [4.0, 5.0, 6.0]], dtype=torch.float64)
    mask = torch.tensor([[1, 1, 0], [1, 1, 1], [0, 0, 0]]).bool()
    log_total, shares = masked_softmax(logits.clone(), mask, with_one=with_one)
    leaf = logits.clone().requires_grad_()
    total = (leaf.exp() * mask).sum(1) + with_one
    expected = total.masked_fill(total == 0, 1).log()
    torch.testing.assert_close(log_total.squeeze(1), expected.detach())
    expected.sum().backward()
    torch.testing.assert_close(shares, leaf.grad)
    assert torch.autograd.gradcheck(lambda x: log1p_sum_exp(x, mask), [logits.clone().requires_grad_()])
    assert torch.autograd.gradcheck(lambda x: log_sum_exp(x, mask), [logits.clone().requires_grad_()])


def test_a_known_gradient_is_scaled_on_the_way_back_and_the_value_may_be_added_to_in_place():
    source = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    slope = torch.tensor([[1.0, 0.0], [-2.0, 0.5]])
    value = with_gradient(source, torch.tensor(7.0), slope)
    value += 1
    (3 * value).backward()
    assert value.item() == 8
    torch.testing.assert_close(source.grad, 3 * slope)
    source.grad = None
    each = with_gradient(source, source.detach().square(), 2 * source.detach())
    weighed_sum(each, slope).backward()
    torch.testing.assert_close(source.grad, 2 * source.detach() * slope)


def test_masks_become_ones_and_zeros_and_are_counted():
    mask = torch.tensor([[True, False, True], [False, False, False]])
    assert entries(mask, torch.float64).tolist() == [[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    assert number(mask).tolist() == [2.0, 0.0]
    assert number(mask.T).tolist() == [1.0, 0.0, 1.0]
