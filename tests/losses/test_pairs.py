"""The shared pair object: safe unit vectors, masks, what miner and loss share, and the stable sums."""

import math

import pytest
import torch
from loops import small_batch

from unseen.core.errors import BatchError
from unseen.losses import Pairs
from unseen.losses.pairs import inner_products, log1p_sum_exp, log_sum_exp, masked_mean, pairs_of, unit_vectors


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


def test_masks_and_counts_leave_self_pairs_out():
    pairs = Pairs(torch.randn(4, 3, generator=torch.Generator().manual_seed(0)), torch.tensor([5, 5, 7, 5]))
    assert pairs.positive.int().tolist() == [[0, 1, 0, 1], [1, 0, 0, 1], [0, 0, 0, 0], [1, 1, 0, 0]]
    assert pairs.negative.int().tolist() == [[0, 0, 1, 0], [0, 0, 1, 0], [1, 1, 0, 1], [0, 0, 1, 0]]
    assert pairs.positive_count.tolist() == [2, 2, 0, 2]
    assert pairs.negative_count.tolist() == [1, 1, 3, 1]


def test_a_reference_set_has_no_self_pairs_to_leave_out():
    embeddings, labels = small_batch()
    pairs = Pairs(embeddings[:3], labels[:3], embeddings, labels)
    assert pairs.similarity.shape == (3, 10)
    assert torch.equal(pairs.positive, labels[:3].unsqueeze(1) == labels)
    assert torch.equal(pairs.positive_count + pairs.negative_count, torch.full((3,), 10))


def test_distances_are_those_of_the_unit_vectors():
    embeddings, labels = small_batch()
    pairs = Pairs(embeddings, labels)
    unit = embeddings / embeddings.norm(dim=1, keepdim=True)
    expected = (unit.unsqueeze(1) - unit).square().sum(2)
    torch.testing.assert_close(pairs.squared_distance, expected)
    torch.testing.assert_close(pairs.distance, (expected + 1e-8).sqrt())
    assert (pairs.distance.diagonal() - 1e-4).abs().max() < 1e-5


def test_a_miner_that_asks_first_does_not_cut_the_graph_of_the_loss():
    embeddings, labels = small_batch()
    pairs = Pairs(embeddings.requires_grad_(), labels)
    with torch.no_grad():
        mined_on = pairs.detached
        assert not mined_on.similarity.requires_grad
        assert not mined_on.distance.requires_grad
    assert pairs.similarity.requires_grad
    assert pairs.distance.requires_grad
    assert mined_on.similarity.data_ptr() == pairs.similarity.data_ptr()
    assert mined_on.positive is pairs.positive
    assert mined_on.detached is mined_on


def test_no_graph_is_recorded_where_gradients_are_off():
    embeddings, labels = small_batch()
    with torch.no_grad():
        pairs = Pairs(embeddings.requires_grad_(), labels)
    assert not pairs.similarity.requires_grad


def test_ready_pairs_come_alone():
    pairs = Pairs(*small_batch())
    assert pairs_of(pairs, None) is pairs
    with pytest.raises(BatchError, match="hold their labels"):
        pairs_of(pairs, pairs.labels)


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


def test_the_mean_over_nothing_is_a_connected_zero():
    values = torch.ones(2, 2, requires_grad=True)
    mean = masked_mean(values, torch.zeros(2, 2, dtype=torch.bool))
    mean.backward()
    assert mean.item() == 0
    assert not values.grad.any()
