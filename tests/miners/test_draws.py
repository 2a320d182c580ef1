"""The weighted draw: exact shares, no column of weight 0, no matter how the numbers fall."""

import torch

from unseen.core.randomness import torch_generator
from unseen.losses import Pairs
from unseen.miners.draws import draw, uniform_numbers


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


def test_an_empty_row_gives_a_column_that_exists():
    assert draw(torch.zeros(2, 3), torch.zeros(2, 1, dtype=torch.float64)).max() <= 2


def test_numbers_depend_on_the_key_and_on_nothing_else():
    pairs = Pairs(torch.randn(5, 3, generator=torch_generator(0)), torch.arange(5))
    first = uniform_numbers(pairs, 7, draws=2, per_anchor=3)
    assert first.shape == (2, 5, 3)
    assert torch.equal(uniform_numbers(pairs, 7, draws=2, per_anchor=3), first)
    assert not torch.equal(uniform_numbers(pairs, 8, draws=2, per_anchor=3), first)
    assert (first >= 0).all()
    assert (first < 1).all()
