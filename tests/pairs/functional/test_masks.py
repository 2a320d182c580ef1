"""Counts, sums and columns of masks against plain torch."""

import pytest
import torch

from tests.pairs.functional.plain import assert_same_as_autograd, random_mask, random_matrix
from unseen.pairs.functional import as_numbers, masked_mean, masked_row_sums, masked_sum, row_counts, selected_columns
from unseen.pairs.functional.masks import SMALL_MASK, fill_outside


def test_masks_become_ones_and_zeros_and_are_counted():
    mask = torch.tensor([[True, False, True], [False, False, False]])
    assert as_numbers(mask, torch.float64).tolist() == [[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    assert row_counts(mask).tolist() == [2, 0]
    assert row_counts(mask.T).tolist() == [1, 0, 1]


@pytest.mark.parametrize("columns", [10, SMALL_MASK // 4 + 1])
def test_small_and_large_masks_are_counted_alike(columns):
    mask = random_mask(1, 5, columns)
    assert torch.equal(row_counts(mask), mask.sum(1))
    assert row_counts(mask).dtype == torch.int64


def test_entries_outside_a_mask_become_infinite_and_the_others_stay_exactly():
    values, mask = random_matrix(2, 6, 7) * 1e30 - 5e29, random_mask(3, 6, 7)
    assert torch.equal(fill_outside(values, mask), torch.where(mask, values, -torch.inf))


def test_row_sums_and_means_equal_plain_autograd():
    values, mask = random_matrix(4, 6, 7), random_mask(5, 6, 7)
    assert_same_as_autograd(lambda x: masked_row_sums(x, mask), lambda x: torch.where(mask, x, 0).sum(1), values)
    row = mask[0]
    assert_same_as_autograd(lambda x: masked_mean(x, row), lambda x: x[row].mean(), values[0])
    assert_same_as_autograd(lambda x: masked_sum(x, row), lambda x: x[row].sum(), values[0])
    assert_same_as_autograd(lambda x: masked_mean(x, mask), lambda x: x[mask].mean(), values)
    assert_same_as_autograd(lambda x: masked_sum(x, mask), lambda x: x[mask].sum(), values)


def test_the_mean_of_nothing_is_a_connected_zero():
    leaf = torch.ones(3, requires_grad=True)
    value = masked_mean(leaf, torch.zeros(3, dtype=torch.bool))
    value.backward()
    assert value.item() == 0
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [0, 0, 0]


def test_selected_columns_are_in_order_and_padded_with_zeros():
    mask = torch.tensor([[0, 1, 1, 0], [0, 0, 0, 0], [1, 0, 0, 1], [0, 0, 0, 1]]).bool()
    columns, counts = selected_columns(mask)
    assert columns.tolist() == [[1, 2], [0, 0], [0, 3], [3, 0]]
    assert counts.tolist() == [2, 0, 2, 1]
    empty, none = selected_columns(torch.zeros(3, 5, dtype=torch.bool))
    assert empty.tolist() == [[0], [0], [0]]
    assert none.tolist() == [0, 0, 0]
