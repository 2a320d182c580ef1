"""Soft ranks and soft histograms against plain autograd, and what they tend to."""

import pytest
import torch

from tests.losses.test_histogram import histogram_in_loops
from tests.pairs.functional.plain import assert_same_as_autograd, random_mask, random_matrix
from unseen.pairs.functional import ranks, soft_histogram, soft_ranks

VALUES, MASK, REFERENCES = random_matrix(0, 7, 9) * 2 - 1, random_mask(1, 7, 9), random_matrix(2, 7, 3) * 2 - 1


def plain_ranks(values, references, temperature):
    table = ((values.unsqueeze(1) - references.unsqueeze(2)) / temperature).sigmoid()
    return (table * MASK.unsqueeze(1)).sum(2)


@pytest.mark.parametrize("temperature", [0.01, 0.3, 10.0])
@pytest.mark.parametrize(("table", "kept"), [(2**17, 2**23), (1, 2**23), (1, 0), (130, 0)])
def test_soft_ranks_equal_plain_autograd_with_tables_kept_or_computed_again(monkeypatch, temperature, table, kept):
    monkeypatch.setattr(ranks, "TABLE_ENTRIES", table)
    monkeypatch.setattr(ranks, "KEPT_ENTRIES", kept)
    assert_same_as_autograd(
        lambda x, r: soft_ranks(x, MASK, r, temperature=temperature),
        lambda x, r: plain_ranks(x, r, temperature),
        VALUES,
        REFERENCES,
    )


def test_soft_ranks_of_a_matrix_among_its_own_columns_pass_gradcheck():
    leaf = VALUES.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: soft_ranks(x, MASK, x[:, :4], temperature=0.4), [leaf])


def test_soft_ranks_tend_to_counts_where_equal_values_count_half():
    values = torch.tensor([[0.1, 0.5, 0.5, 0.9]])
    counts = soft_ranks(values, torch.ones(1, 4, dtype=torch.bool), torch.tensor([[0.5, 0.0, 1.0]]), temperature=1e-6)
    assert counts.tolist() == [[2.0, 4.0, 0.0]]


def plain_histogram(values, masks, num_nodes):
    nodes = torch.linspace(-1, 1, num_nodes, dtype=torch.float64)
    weights = (1 - (values.unsqueeze(2) - nodes).abs() * (num_nodes - 1) / 2).relu()
    return torch.stack([(weights * mask.unsqueeze(2)).sum((0, 1)) / max(1, int(mask.sum())) for mask in masks])


@pytest.mark.parametrize("num_nodes", [2, 3, 11, 65])
@pytest.mark.parametrize("density", [0.0, 0.4])
def test_soft_histograms_equal_plain_autograd(num_nodes, density):
    masks = [random_mask(3, 7, 9, density=0.3), torch.zeros(7, 9, dtype=torch.bool)]
    masks[1] = ~masks[0] & (random_matrix(4, 7, 9) < density)
    assert_same_as_autograd(
        lambda x: soft_histogram(x, masks, num_nodes).heights,
        lambda x: plain_histogram(x, masks, num_nodes),
        VALUES * 0.99,
    )


@pytest.mark.parametrize("num_nodes", [2, 11, 65])
def test_each_value_has_a_weight_of_one_in_all_at_its_own_place(num_nodes):
    similarity = torch.linspace(-1, 1, 41, dtype=torch.float64).unsqueeze(0)
    first = torch.arange(41).unsqueeze(0) < 20
    heights, counts = soft_histogram(similarity, (first, ~first), num_nodes)
    torch.testing.assert_close(heights.sum(1), torch.ones(2, dtype=torch.float64))
    assert counts.sum(1).tolist() == [20, 21]
    for group, part in enumerate((similarity[0, :20], similarity[0, 20:])):
        expected = torch.tensor(histogram_in_loops(part.tolist(), num_nodes), dtype=torch.float64)
        torch.testing.assert_close(heights[group], expected)


def test_values_beyond_the_ends_count_as_the_ends():
    heights, _ = soft_histogram(torch.tensor([[-1.5, 1.0 + 1e-7]]), [torch.ones(1, 2, dtype=torch.bool)], 5)
    assert heights.tolist() == [[0.5, 0, 0, 0, 0.5]]
