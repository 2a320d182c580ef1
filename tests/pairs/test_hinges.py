"""Hinges with written-down slopes against plain loops and autograd, in float64."""

import pytest
import torch

from tests.losses.loops import hinge
from unseen.core.randomness import torch_generator
from unseen.losses import PairMasks
from unseen.pairs.hinges import FEW, over_all, with_slopes


def random_matrix(seed, *shape):
    return torch.rand(shape, generator=torch_generator(seed), dtype=torch.float64)


def in_loops(distance, chosen, margin):
    """The hinges of all triplets, one by one, and their gradient."""
    gradient, terms = torch.zeros_like(distance), []
    for anchor in range(len(distance)):
        for near in chosen.positive[anchor].nonzero().flatten().tolist():
            for far in chosen.negative[anchor].nonzero().flatten().tolist():
                terms.append(hinge((distance[anchor, near] - distance[anchor, far] + margin).item()))
                if terms[-1] > 0:
                    gradient[anchor, near] += 1
                    gradient[anchor, far] -= 1
    return terms, gradient


# Sparse positives are compared one by one, dense ones are searched; 0 and 1 have rows, or all, without any.
@pytest.mark.parametrize("density", [0.0, 0.05, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("shape", [(7, 7), (5, 31), (31, 5), (3, 40)])
def test_all_triplets_at_once_equal_the_loops(shape, density):
    distance = (random_matrix(0, *shape) * 20).round() / 10  # many ties
    positive = random_matrix(1, *shape) < density
    # Pairs in both masks, or in none, are no obstacle.
    chosen = PairMasks(positive, random_matrix(2, *shape) < 0.6)
    terms, gradient = in_loops(distance, chosen, 0.25)
    leaf = distance.clone().requires_grad_()
    found = over_all(leaf, chosen, 0.25)
    found.total.backward()
    assert found.total.item() == pytest.approx(sum(terms), abs=1e-9)
    assert found.used == len(terms)
    assert found.active == sum(term > 0 for term in terms)
    assert torch.equal(leaf.grad, gradient)


def test_both_ways_of_counting_were_tested():
    widths = [
        int((random_matrix(1, *shape) < density).sum(1).max()) for shape in [(7, 7), (3, 40)] for density in (0.3, 0.9)
    ]
    assert min(widths) <= FEW < max(widths)


def test_slopes_at_places_are_the_gradient_and_repeated_places_add_up():
    matrix = random_matrix(3, 4, 5).requires_grad_()
    places, slopes = torch.tensor([[3, 3, 19], [0, 7, 3]]), random_matrix(4, 2, 3)
    traced = (matrix.flatten()[places] * slopes).sum()
    (expected,) = torch.autograd.grad(3 * traced, matrix)
    value = with_slopes(traced.detach(), matrix, places, slopes)
    assert torch.equal(value, traced)
    torch.testing.assert_close(torch.autograd.grad(3 * value, matrix)[0], expected)


def test_slopes_of_several_sources_can_be_chained():
    first, second = random_matrix(5, 3).requires_grad_(), random_matrix(6, 2, 2).requires_grad_()
    value = with_slopes(torch.zeros((), dtype=torch.float64), first, torch.tensor([1]), torch.ones(1).double())
    value = with_slopes(value, second, torch.tensor([2]), torch.ones(1).double() * 5)
    value.backward()
    assert first.grad.tolist() == [0, 1, 0]
    assert second.grad.tolist() == [[0, 0], [5, 0]]


def test_no_places_give_a_connected_zero():
    matrix = random_matrix(7, 2, 2).requires_grad_()
    nothing = torch.zeros(2, 0)
    with_slopes(torch.zeros(()), matrix, nothing.long(), nothing.double()).backward()
    assert not matrix.grad.any()
