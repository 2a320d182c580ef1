"""The shared pair object: safe unit vectors, masks, what miner and loss share, and the stable sums."""

import math

import pytest
import torch
from loops import small_batch

from unseen.core.errors import BatchError
from unseen.losses import Pairs
from unseen.losses.pairs import (
    distance_of,
    entries,
    inner_products,
    known_gradient,
    log1p_sum_exp,
    log_sum_exp,
    number,
    pairs_of,
    shares_of,
    unit_vectors,
    weighed_sum,
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


def test_cosines_without_unit_vectors_equal_those_with_them_in_value_and_gradient():
    embeddings, labels = small_batch()
    weights = torch.randn(10, 10, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    for scale in (1e-8, 1.0, 1e8):
        ordinary, plain = (embeddings.clone().mul(scale).requires_grad_() for _ in range(2))
        similarity = Pairs(ordinary, labels).similarity
        unit = plain / plain.norm(dim=1, keepdim=True)
        torch.testing.assert_close(similarity, unit @ unit.T)
        (similarity * weights).sum().backward()
        (unit @ unit.T * weights).sum().backward()
        torch.testing.assert_close(ordinary.grad * scale, plain.grad * scale)


def test_rows_of_very_different_lengths_in_one_batch_have_the_cosines_of_their_directions():
    embeddings, labels = small_batch()
    scales = torch.tensor([1e-30, 1e-11, 1e-9, 1e-3, 1.0, 1e3, 1e9, 1e12, 1e20, 1e30]).unsqueeze(1)
    found = Pairs((embeddings * scales).float(), labels)
    expected = Pairs(embeddings, labels).similarity.float()
    expected[0], expected[:, 0] = 0, 0  # without a direction
    torch.testing.assert_close(found.similarity, expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(Pairs((embeddings * 1e9).float(), labels).similarity[1:, 1:], expected[1:, 1:])


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
    log_total, shares = shares_of(logits.clone(), mask, with_one=with_one)
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
    value = known_gradient(source, torch.tensor(7.0), slope)
    value += 1
    (3 * value).backward()
    assert value.item() == 8
    torch.testing.assert_close(source.grad, 3 * slope)
    source.grad = None
    each = known_gradient(source, source.detach().square(), 2 * source.detach())
    weighed_sum(each, slope).backward()
    torch.testing.assert_close(source.grad, 2 * source.detach() * slope)


def test_masks_become_ones_and_zeros_and_are_counted():
    mask = torch.tensor([[True, False, True], [False, False, False]])
    assert entries(mask, torch.float64).tolist() == [[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    assert number(mask).tolist() == [2.0, 0.0]
    assert number(mask.T).tolist() == [1.0, 0.0, 1.0]
