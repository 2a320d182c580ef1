"""The weighted draw: exact shares, no column of weight 0, no matter how the numbers fall."""

import torch

from unseen.core.randomness import torch_generator
from unseen.losses import Pairs
from unseen.pairs.random_choice import draw, triplets_of, uniform_numbers


def test_a_number_falls_into_the_column_that_holds_its_share():
    weights = torch.tensor([[1.0, 0.0, 2.0, 1.0]])
    numbers = torch.tensor([[0.0, 0.2499, 0.25, 0.5, 0.7499, 0.75, 0.9999]], dtype=torch.float64)
    assert draw(weights, numbers).tolist() == [[0, 0, 2, 2, 2, 3, 3]]


def test_columns_of_weight_zero_are_never_drawn_at_the_ends():
    weights = torch.tensor([[0.0, 0.0, 1e-30, 0.0], [0.0, 3.0, 0.0, 0.0]])
    largest = (1 - 2**-53) * (1 - 2**-40)
    numbers = torch.tensor([[0.0, 0.5, largest]] * 2, dtype=torch.float64)
    assert draw(weights, numbers).tolist() == [[2, 2, 2], [1, 1, 1]]


def test_a_mask_draws_uniformly():
    mask = torch.tensor([[True, False, True, True]])
    numbers = torch.linspace(0, 0.999, 300, dtype=torch.float64).unsqueeze(0)
    counts = torch.bincount(draw(mask, numbers).flatten(), minlength=4)
    assert counts.tolist() == [100, 0, 100, 100] or (counts - torch.tensor([100, 0, 100, 100])).abs().max() <= 1


def test_a_row_without_weight_gives_the_number_of_columns():
    weights = torch.tensor([[0.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    assert draw(weights, torch.tensor([[0.0, 0.99]] * 2, dtype=torch.float64)).tolist() == [[3, 3], [1, 1]]


def test_triplets_leave_out_what_drew_nothing():
    pairs = Pairs(torch.randn(3, 2, generator=torch_generator(0)), torch.arange(3))
    positive, negative = torch.tensor([[1, 2], [3, 0], [0, 1]]), torch.tensor([[2, 1], [0, 0], [3, 0]])
    found = triplets_of(pairs, positive, negative)
    assert [part.tolist() for part in found] == [[0, 0, 1, 2], [1, 2, 0, 1], [2, 1, 0, 0]]


def test_numbers_depend_on_the_key_and_on_nothing_else():
    pairs = Pairs(torch.randn(5, 3, generator=torch_generator(0)), torch.arange(5))
    first = uniform_numbers(pairs, 7, draws=2, per_anchor=3)
    assert first.shape == (2, 5, 3)
    assert torch.equal(uniform_numbers(pairs, 7, draws=2, per_anchor=3), first)
    assert not torch.equal(uniform_numbers(pairs, 8, draws=2, per_anchor=3), first)
    assert (first >= 0).all()
    assert (first < 1).all()
