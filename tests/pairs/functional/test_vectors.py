"""Unit vectors, products, cosines and distances against plain autograd, closed forms and gradcheck."""

import pytest
import torch

from tests.losses.loops import grad, small_batch
from tests.pairs.functional.plain import assert_same_as_autograd
from unseen.core.randomness import torch_generator
from unseen.pairs.functional import (
    cosines,
    cosines_from_products,
    distance_of,
    euclidean_distances,
    inner_products,
    squared_distance_of,
    unit_vectors,
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
    assert grad(vectors).isfinite().all()


def test_vectors_without_a_direction_stay_zero_and_get_no_gradient():
    vectors = torch.tensor([[0.0, 0.0], [1e-30, -1e-30], [3.0, 4.0]], requires_grad=True)
    unit = unit_vectors(vectors)
    torch.testing.assert_close(unit, torch.tensor([[0.0, 0.0], [0.0, 0.0], [0.6, 0.8]]))
    (unit * torch.tensor([1.0, 2.0])).sum().backward()
    assert not grad(vectors)[:2].any()
    assert grad(vectors)[2].any()


def test_one_column_has_no_gradient_because_only_the_sign_remains():
    vectors = torch.tensor([[0.3], [-7.0], [1e-3]], requires_grad=True)
    unit_vectors(vectors).sum().backward()
    assert not grad(vectors).any()


def test_products_pass_gradcheck_with_themselves_and_with_others():
    left = small_batch(1)[0].requires_grad_()
    right = small_batch(2)[0].requires_grad_()
    assert torch.autograd.gradcheck(lambda rows: inner_products(rows, rows), [left])
    assert torch.autograd.gradcheck(inner_products, [left, right])
    assert torch.autograd.gradcheck(unit_vectors, [left])


def test_distances_have_the_slope_of_the_root_and_none_where_they_stop():
    similarity = torch.tensor([-1.0, 0.2, 0.9999, 1.0 + 1e-7], dtype=torch.float64, requires_grad=True)
    plain = similarity.detach().clone().requires_grad_()
    expected = (2 + 1e-8 - 2 * plain).clamp(min=1e-8).sqrt()
    torch.testing.assert_close(distance_of(similarity), expected)
    distance_of(similarity).sum().backward()
    expected.sum().backward()
    torch.testing.assert_close(similarity.grad, plain.grad)
    assert grad(similarity)[3] == 0
    again = torch.tensor([1.0, 0.5], requires_grad=True)  # float32 rounds 2 + 1e-8 to 2
    distance_of(again).sum().backward()
    assert grad(again).tolist() == pytest.approx([0.0, -1.0])


def test_cosines_from_products_have_the_value_and_gradient_of_cosines_of_unit_vectors():
    rows, _ = small_batch(9)
    rows = rows * torch.logspace(-3, 3, len(rows), dtype=torch.float64).unsqueeze(1)
    weights = torch.randn(len(rows), len(rows), generator=torch_generator(1), dtype=torch.float64)
    found, expected = rows.clone().requires_grad_(), rows.clone().requires_grad_()
    similarity = cosines_from_products(inner_products(found, found))
    units = unit_vectors(expected)
    torch.testing.assert_close(similarity, units @ units.T)
    (similarity * weights).sum().backward()
    ((units @ units.T) * weights).sum().backward()
    torch.testing.assert_close(found.grad, expected.grad)


def test_rows_without_direction_have_cosine_zero_and_no_gradient():
    rows = torch.tensor([[0.0, 0.0], [1e-14, 0.0], [3.0, 4.0]], requires_grad=True)
    similarity = cosines_from_products(inner_products(rows, rows))
    torch.testing.assert_close(similarity.detach(), torch.diag(torch.tensor([0.0, 0.0, 1.0])))
    similarity.sum().backward()
    torch.testing.assert_close(rows.grad, torch.zeros(3, 2))


def plain_cosines(rows):
    units = rows / rows.norm(dim=1, keepdim=True)
    return units @ units.T


def test_vectors_and_distances_equal_plain_autograd():
    rows, others = small_batch(1)[0], small_batch(2)[0]
    assert_same_as_autograd(unit_vectors, lambda x: x / x.norm(dim=1, keepdim=True), rows)
    assert_same_as_autograd(inner_products, lambda x, y: x @ y.T, rows, others)
    assert_same_as_autograd(lambda x: inner_products(x, x), lambda x: x @ x.T, rows)
    assert_same_as_autograd(cosines, plain_cosines, rows)
    assert_same_as_autograd(lambda x: cosines_from_products(x @ x.T), plain_cosines, rows)
    apart = plain_cosines(rows).fill_diagonal_(0.3) * 0.999
    assert_same_as_autograd(distance_of, lambda s: (2 + 1e-8 - 2 * s).clamp(min=1e-8).sqrt(), apart)
    assert_same_as_autograd(squared_distance_of, lambda s: 2 - 2 * s, apart)
    assert_same_as_autograd(
        euclidean_distances, lambda x, y: ((x.unsqueeze(1) - y).square().sum(2) + 1e-8).sqrt(), rows, others
    )
