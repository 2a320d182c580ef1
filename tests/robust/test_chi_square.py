"""The chi-square ball: closed form, exact weights, and where one takes over from the other."""

import itertools
import math

import pytest
import torch

from unseen.core.randomness import derive, torch_generator
from unseen.losses import PairTerms
from unseen.robust import ChiSquare
from unseen.robust.chi_square import closed_form_weights, exact_weights


def row(losses):
    values = torch.as_tensor(losses, dtype=torch.float64).view(1, -1)
    mask = torch.ones_like(values, dtype=torch.bool)
    return PairTerms(values, mask, ~mask)


def random_losses(number, size=30):
    return torch.rand(size, generator=torch_generator(derive(number, "losses")), dtype=torch.float64)


@pytest.mark.parametrize("rho", [0.0, 0.01, 0.5, 2.0])
def test_the_closed_form_is_the_mean_plus_the_deviation_and_the_exact_weights_agree(rho):
    checked = 0
    for number in range(50):
        losses = random_losses(number)
        mean, variance = losses.mean(), losses.var(correction=0)
        holds = math.sqrt(2 * rho) * (mean - losses.min()) <= (len(losses) * variance).sqrt()
        weights, is_valid = closed_form_weights(losses, torch.ones_like(losses, dtype=torch.bool), rho)
        assert bool(is_valid) == bool(holds)
        if holds:
            checked += 1
            value = ChiSquare(rho).worst_case(row(losses)).value
            torch.testing.assert_close(value, mean + (2 * rho * variance / len(losses)).sqrt(), rtol=1e-12, atol=0)
            torch.testing.assert_close(exact_weights(losses, rho), weights, rtol=1e-9, atol=1e-12)
    assert checked > 10


@pytest.mark.parametrize("rho", [0.0, 0.3, 5.0, 40.0, 300.0])
def test_weights_stay_in_the_ball_and_reach_its_edge_until_the_maximum(rho):
    for number in range(50):
        losses = random_losses(number)
        n = len(losses)
        weights = ChiSquare(rho).worst_case(row(losses)).weights.flatten()
        radius = (n * weights - 1).square().sum().item()
        assert radius == pytest.approx(min(2 * rho, n * n - n), rel=1e-9, abs=1e-12)


def test_the_value_grows_with_the_ball_and_is_the_maximum_from_the_stated_size_on():
    losses = [0.1, 0.9, 0.4, 0.9, 0.2, 0.9, 0.0]
    threshold = (7 * 7 / 3 - 7) / 2
    sizes = [0, 0.1, 1, 3, threshold * 0.99, threshold, threshold * 1.01, 100]
    values = [ChiSquare(rho).worst_case(row(losses)).value.item() for rho in sizes]
    assert all(later >= earlier - 1e-12 for earlier, later in itertools.pairwise(values))
    assert values[0] == pytest.approx(sum(losses) / 7)
    assert values[4] < 0.9 - 1e-6
    assert values[5] == pytest.approx(0.9, abs=1e-9)
    assert values[6] == pytest.approx(0.9, abs=1e-12)


def test_many_pairs_and_tied_losses_have_weights_on_the_simplex():
    for number in range(20):
        losses = (random_losses(number, 3000) * 10).round() / 10
        for rho in (1.0, 500.0, 5e4, 1e7):
            weights = ChiSquare(rho).worst_case(row(losses)).weights
            assert weights.min() >= 0
            assert weights.sum().item() == pytest.approx(1, rel=1e-10)
            assert (weights * losses).sum() >= losses.mean()
