"""Raw products, distances and lengths against plain numbers, and what becomes of rows too long to square."""

import math

import pytest
import torch

from tests.losses.loops import grad, small_batch
from unseen.core.randomness import torch_generator
from unseen.losses import Pairs
from unseen.pairs.unnormalized import LARGEST, length_penalty, limited, raw_distance


@pytest.mark.parametrize("with_reference", [False, True])
def test_distances_and_their_gradients_equal_plain_differences(with_reference):
    embeddings, labels = small_batch(1)
    other, other_labels = small_batch(2) if with_reference else (embeddings, labels)
    weights = torch.randn(len(labels), len(other_labels), generator=torch_generator(3), dtype=torch.float64)
    if not with_reference:
        weights.fill_diagonal_(0)
    left, right = embeddings.clone().requires_grad_(), other.clone().requires_grad_()
    pairs = Pairs(left, labels, right, other_labels) if with_reference else Pairs(left, labels)
    found = raw_distance(limited(left), pairs)
    (found * weights).sum().backward()
    plain, plain_other = embeddings.clone().requires_grad_(), other.clone().requires_grad_()
    columns = plain_other if with_reference else plain
    expected = ((plain.unsqueeze(1) - columns).square().sum(2) + 1e-8).sqrt()
    (expected * weights).sum().backward()
    torch.testing.assert_close(found.detach(), expected.detach())
    torch.testing.assert_close(left.grad, plain.grad)
    if with_reference:
        torch.testing.assert_close(right.grad, plain_other.grad)


def test_a_common_centre_far_away_costs_no_precision_but_that_of_its_numbers():
    embeddings, labels = small_batch(4)
    # 1000 + x in float32 knows x to 6e-5; squares of 1000 would know distances of 1 to 0.1 only.
    far = embeddings.float() + 1000
    found = raw_distance(limited(far), Pairs(far, labels))
    torch.testing.assert_close(found, raw_distance(limited(far.double()), Pairs(far.double(), labels)).float())


def test_ordinary_rows_are_left_as_they_are_and_long_ones_keep_their_direction():
    rows = torch.tensor([[3.0, 4.0], [0.0, 0.0], [1e-30, 0.0], [LARGEST, 1.0], [3e30, -1.5e30]])
    found = limited(rows)
    assert torch.equal(found[:4], rows[:4])
    torch.testing.assert_close(found[4], torch.tensor([1e12, -0.5e12]))


def test_the_length_of_a_long_row_is_still_pulled_back():
    rows = torch.tensor([[3e30, -1.5e30]], requires_grad=True)
    value = length_penalty(limited(rows), "squared_norm")
    value.backward()
    assert value.isfinite()
    assert torch.equal(grad(rows).sign(), rows.detach().sign())


def test_penalties_are_the_mean_squared_length_and_the_mean_length():
    rows = torch.tensor([[3.0, 4.0], [0.0, 0.0], [0.0, 1.0]], requires_grad=True)
    assert length_penalty(rows, "squared_norm").item() == pytest.approx(26 / 3)
    length = length_penalty(rows, "norm")
    assert length.item() == pytest.approx(2)
    length.backward()
    torch.testing.assert_close(grad(rows) * 3, torch.tensor([[0.6, 0.8], [0.0, 0.0], [0.0, 1.0]]))


@pytest.mark.parametrize("size", [1e13, 1e25, 1e38])
def test_the_largest_numbers_of_float32_give_finite_distances(size):
    embeddings, labels = small_batch(5)
    embeddings = (embeddings / embeddings.abs().max() * size).float().requires_grad_()
    found = raw_distance(limited(embeddings), Pairs(embeddings, labels))
    found.sum().backward()
    assert math.isfinite(found.sum().item())
    assert embeddings.grad.isfinite().all()
