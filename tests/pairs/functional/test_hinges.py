"""Sums of hinges against plain loops and plain autograd, in float64."""

import pytest
import torch

from tests.losses.loops import grad, hinge
from tests.pairs.functional.plain import assert_same_as_autograd, random_mask, random_matrix
from unseen.losses import PairMasks
from unseen.pairs.functional import PairClasses, disjoint_hinges, pair_hinges, triplet_hinges
from unseen.pairs.functional.hinges import FEW_POSITIVES


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
    hinges = triplet_hinges(leaf, chosen.positive, chosen.negative, 0.25)
    hinges.total.backward()
    assert hinges.total.item() == pytest.approx(sum(terms), abs=1e-9)
    assert hinges.num_terms == len(terms)
    assert hinges.num_active == sum(term > 0 for term in terms)
    assert torch.equal(grad(leaf), gradient)


def test_both_ways_of_counting_were_tested():
    widths = [
        int((random_matrix(1, *shape) < density).sum(1).max()) for shape in [(7, 7), (3, 40)] for density in (0.3, 0.9)
    ]
    assert min(widths) <= FEW_POSITIVES < max(widths)


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("shape", [None, (), (7, 1)], ids=str)
def test_hinges_under_a_mask_equal_plain_autograd_and_bounds_get_their_gradient(squared, shape):
    values, masks = random_matrix(1, 7, 9), (random_mask(2, 7, 9), random_mask(5, 7, 9))
    bounds = [] if shape is None else [random_matrix(3, *shape), random_matrix(6, *shape)]

    def plain(x, near=0.4, far=0.7):
        hinges = torch.stack(((x - near).relu() * masks[0], (far - x).relu() * masks[1]))
        return (hinges.square() / 2 if squared else hinges).sum(2)

    def hand_written(x, near=0.4, far=0.7):
        return pair_hinges(x, masks, near=near, far=far, squared=squared).total

    assert_same_as_autograd(hand_written, plain, values, *bounds)
    near, far = bounds or (0.4, 0.7)
    num_active = torch.stack((((values > near) & masks[0]).sum(1), ((values < far) & masks[1]).sum(1)))
    assert torch.equal(pair_hinges(values, masks, near=near, far=far, squared=squared).num_active, num_active.double())


def test_hinges_under_an_empty_mask_are_a_connected_zero():
    leaf = random_matrix(4, 3, 4).requires_grad_()
    empty = torch.zeros(3, 4, dtype=torch.bool)
    total, num_active = pair_hinges(leaf, (empty, empty), near=0.1, far=0.9)
    total.sum().backward()
    assert total.tolist() == num_active.tolist() == [[0, 0, 0], [0, 0, 0]]
    assert leaf.grad is not None
    assert not leaf.grad.any()


def plain_triplets(distance, positive, negative, margin):
    triplets = positive.unsqueeze(2) & negative.unsqueeze(1)
    return ((distance.unsqueeze(2) - distance.unsqueeze(1) + margin).relu() * triplets).sum()


@pytest.mark.parametrize("density", [0.1, 0.9])
def test_hinges_of_all_triplets_equal_plain_autograd(density):
    distance, positive = random_matrix(5, 9, 20) * 2, random_mask(6, 9, 20, density=density)
    negative = ~positive & (random_matrix(7, 9, 20) < 0.7)
    assert_same_as_autograd(
        lambda d: triplet_hinges(d, positive, negative, 0.3).total,
        lambda d: plain_triplets(d, positive, negative, 0.3),
        distance,
    )


def plain_disjoint(distance, positive, negative, classes, margin):
    """One pair of pairs after the other."""
    total, num_terms = distance.new_zeros(()), 0
    for i, j in positive.nonzero().tolist():
        for row, column in negative.nonzero().tolist():
            if classes.rows[i] not in (classes.rows[row], classes.columns[column]):
                total = total + (distance[i, j] - distance[row, column] + margin).relu()
                num_terms += 1
    return total, num_terms


@pytest.mark.parametrize("margin", [0.0, 0.4, 5.0])
def test_hinges_of_pairs_that_share_no_class_equal_plain_autograd(margin):
    labels = torch.tensor([0, 0, 1, 1, 2, 2, 2, 3])
    classes, same = PairClasses(labels, labels), labels.unsqueeze(1) == labels
    positive, negative = same & ~torch.eye(8, dtype=torch.bool), ~same
    distance = random_matrix(8, 8, 8) * 2
    assert_same_as_autograd(
        lambda d: disjoint_hinges(d, positive, negative, classes, margin).total,
        lambda d: plain_disjoint(d, positive, negative, classes, margin)[0],
        distance,
    )
    hinges = disjoint_hinges(distance, positive, negative, classes, margin)
    assert hinges.num_terms == plain_disjoint(distance, positive, negative, classes, margin)[1]


def test_no_pairs_have_a_connected_zero():
    empty, classes = torch.zeros(4, 4, dtype=torch.bool), PairClasses(torch.arange(4), torch.arange(4))
    for block in (
        lambda d: triplet_hinges(d, empty, empty, 0.2),
        lambda d: disjoint_hinges(d, empty, empty, classes, 0.2),
    ):
        leaf = random_matrix(9, 4, 4).requires_grad_()
        hinges = block(leaf)
        hinges.total.backward()
        assert (hinges.total.item(), int(hinges.num_terms), int(hinges.num_active)) == (0, 0, 0)
        assert leaf.grad is not None
        assert not leaf.grad.any()
