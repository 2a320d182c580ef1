"""Second derivatives are refused in one sentence, and values with a known gradient behave as any other."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.contracts.degenerate_batches import WIDTH, ordinary_batch
from tests.contracts.loss_cases import Case
from tests.pairs.functional.plain import random_mask, random_matrix
from unseen.core import registry
from unseen.core.errors import UnseenError
from unseen.pairs import functional
from unseen.pairs.functional import SecondDerivativeError, unit_vectors, weighted_sum, with_gradient

MASK = random_mask(1, 6, 6)
CLASSES = functional.PairClasses(torch.arange(6) // 2, torch.arange(6) // 2)
BLOCKS: dict[str, Callable[[Tensor], Tensor]] = {
    "unit_vectors": unit_vectors,
    "cosines": functional.cosines,
    "cosines_from_products": lambda x: functional.cosines_from_products(x @ x.T),
    "distance_of": functional.distance_of,
    "euclidean_distances": functional.euclidean_distances,
    "masked_row_sums": lambda x: functional.masked_row_sums(x, MASK),
    "log_sum_exp": lambda x: functional.log_sum_exp(x, MASK),
    "log1p_sum_exp": lambda x: functional.log1p_sum_exp(x, MASK, scale=-2.0, largest=1.0),
    "soft_maximum": lambda x: functional.soft_maximum(x, MASK, temperature=0.5),
    "soft_extremes": lambda x: functional.soft_extremes(x, (MASK, ~MASK), temperature=0.5),
    "soft_ranks": lambda x: functional.soft_ranks(x, MASK, x[:, :2], temperature=0.5),
    "soft_histogram": lambda x: functional.soft_histogram(x, [MASK], 7).heights,
    "pair_hinges": lambda x: functional.pair_hinges(x, (MASK, ~MASK), near=0.3, far=0.6).total,
    "triplet_hinges": lambda x: functional.triplet_hinges(x, MASK, ~MASK, 0.2).total,
    "disjoint_hinges": lambda x: functional.disjoint_hinges(x, MASK, ~MASK, CLASSES, 0.2).total,
}


@pytest.mark.parametrize("name", BLOCKS)
def test_a_second_derivative_of_a_block_is_refused_even_where_its_gradient_is_constant(name):
    leaf = random_matrix(0, 6, 6).requires_grad_()
    (gradient,) = torch.autograd.grad(BLOCKS[name](leaf).sum(), leaf, create_graph=True)
    assert gradient.requires_grad
    with pytest.raises(SecondDerivativeError, match="has no second derivative: its gradient is written by hand"):
        gradient.square().sum().backward()


def test_the_sentence_names_the_block_and_says_what_to_do():
    vectors = random_matrix(1, 4, 3).requires_grad_()
    (gradient,) = torch.autograd.grad(unit_vectors(vectors).sin().sum(), vectors, create_graph=True)
    with pytest.raises(UnseenError, match=r"^unit_vectors has no second derivative.*\. Do not differentiate"):
        gradient.sum().backward()


def test_a_gradient_with_a_graph_has_the_value_of_one_without():
    leaf = random_matrix(2, 6, 6).requires_grad_()
    for block in BLOCKS.values():
        (plain,) = torch.autograd.grad(block(leaf).sum(), leaf)
        (with_graph,) = torch.autograd.grad(block(leaf).sum(), leaf, create_graph=True)
        assert torch.equal(plain, with_graph.detach())


@pytest.mark.parametrize("name", registry.loss.names())
def test_second_derivatives_of_every_loss_are_refused(name):
    embeddings, labels = ordinary_batch()
    leaf = embeddings.requires_grad_()
    value = Case(name, ()).build(WIDTH).double()(leaf, labels, key=1)
    (gradient,) = torch.autograd.grad(value, leaf, create_graph=True)
    with pytest.raises(SecondDerivativeError, match="has no second derivative"):
        gradient.square().sum().backward()


def test_a_known_gradient_is_scaled_on_the_way_back_and_the_value_may_be_added_to_in_place():
    source = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    slope = torch.tensor([[1.0, 0.0], [-2.0, 0.5]])
    value = with_gradient(source, torch.tensor(7.0), slope)
    value += 1
    (3 * value).backward()
    assert value.item() == 8
    assert source.grad is not None
    torch.testing.assert_close(source.grad, 3 * slope)
    source.grad = None
    squares = with_gradient(source, source.detach().square(), 2 * source.detach())
    weighted_sum(squares, slope).backward()
    torch.testing.assert_close(source.grad, 2 * source.detach() * slope)
