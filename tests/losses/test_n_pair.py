"""N-pair against loops over the positives it drew, closed forms, and precision."""

import math

import pytest
import torch

from tests.losses.loops import as_indices, grad, negatives, small_batch
from unseen.losses import NPair, PairMasks, Pairs
from unseen.losses.n_pair import n_pair
from unseen.pairs.positive_sampling import draw_positives


def dot(first, second):
    return sum(x * y for x, y in zip(first, second, strict=True))


def drawn_positives(embeddings, labels, key):
    """Anchor -> the positive that a loss draws for it."""
    pairs = Pairs(embeddings, labels)
    drawn = draw_positives(pairs, PairMasks(pairs.positive, pairs.negative), key)
    return {int(row): int(drawn.column[row]) for row in drawn.is_anchor.nonzero()}


def in_loops(rows, labels, positive_of, nu=0.005, regularizer="squared_norm", divisor=1.0, limit=math.inf):
    rows = [[x / divisor for x in row] for row in rows]
    terms = []
    for a, p in positive_of.items():
        excess = [dot(rows[a], rows[n]) - dot(rows[a], rows[p]) for n in negatives(labels, a)]
        terms.append(math.log(1 + sum(math.exp(min(limit, max(-limit, x))) for x in excess)))
    lengths = [dot(row, row) ** (1.0 if regularizer == "squared_norm" else 0.5) for row in rows]
    return sum(terms) / len(terms) + nu * sum(lengths) / len(rows)


@pytest.mark.parametrize("divisor", [1.0, 4.0])
@pytest.mark.parametrize("settings", [{}, {"nu": 0.0}, {"nu": 0.1, "regularizer": "norm"}], ids=str)
def test_it_equals_the_loops_over_the_positives_it_drew(settings, divisor):
    for key in range(4):
        embeddings, labels = small_batch(key)
        positive_of = drawn_positives(embeddings, labels, key)
        assert len(positive_of) == 9  # the class of one sample has none
        loss = NPair(**settings, embedding_divisor=divisor)
        expected = in_loops(embeddings.tolist(), labels.tolist(), positive_of, divisor=divisor, **settings)
        assert loss(embeddings, labels, key=key).item() == pytest.approx(expected, rel=1e-9)
        assert loss.usage.counts()["num_tuples"] == 9


@pytest.mark.parametrize("limit", [0.5, 3.0])
def test_a_limit_clamps_each_exponent(limit):
    embeddings, labels = small_batch(1)
    positive_of = drawn_positives(embeddings, labels, 1)
    pairs = Pairs(embeddings, labels)
    drawn = draw_positives(pairs, PairMasks(pairs.positive, pairs.negative), 1)
    value = n_pair(pairs, drawn, nu=0.0, regularizer="norm", exponent_limit=limit).value
    expected = in_loops(embeddings.tolist(), labels.tolist(), positive_of, nu=0.0, limit=limit)
    assert value.item() == pytest.approx(expected, rel=1e-9)


def test_one_negative_gives_the_softplus_of_the_difference():
    embeddings = torch.tensor([[1.0, 2.0], [0.5, 1.0], [2.0, -1.0]], dtype=torch.float64)
    value = NPair(nu=0.0)(embeddings, torch.tensor([0, 0, 1]), as_indices([(0, 1, 2)]))
    assert value.item() == pytest.approx(math.log1p(math.exp(0.0 - 2.5)))


def test_the_same_constant_on_all_products_of_an_anchor_does_not_matter():
    # A coordinate that all others share adds the same number to each product of the anchor.
    embeddings, labels = small_batch(2)
    indices = as_indices(
        [(0, p, n) for p in (labels == labels[0]).nonzero()[1:2, 0].tolist() for n in negatives(labels.tolist(), 0)]
    )
    shared = torch.full((len(labels), 1), 3.0, dtype=torch.float64)
    loss = NPair(nu=0.0)
    with_shared = loss(torch.cat((embeddings, shared), 1), labels, indices)
    torch.testing.assert_close(with_shared, loss(embeddings, labels, indices))


def test_products_of_thousands_do_not_overflow():
    embeddings = torch.tensor([[100.0, 0.0], [0.0, 1.0], [100.0, 0.0]], requires_grad=True)
    value = NPair(nu=0.0)(embeddings, torch.tensor([0, 0, 1]), as_indices([(0, 1, 2)]))
    value.backward()
    assert value.item() == pytest.approx(1e4)
    torch.testing.assert_close(grad(embeddings)[1], torch.tensor([-100.0, 0.0]))


def test_the_mean_over_many_draws_is_the_mean_over_all_positives():
    embeddings, labels = small_batch(3, sizes=(3, 3))
    classes, rows = labels.tolist(), embeddings.tolist()
    both = [
        in_loops(rows, classes, {a: [p for p in range(6) if p != a and classes[p] == classes[a]][k] for a in range(6)})
        for k in (0, 1)
    ]
    values = torch.tensor([NPair()(embeddings, labels, key=key).item() for key in range(400)])
    # Four standard errors of the mean.
    assert abs(values.mean().item() - sum(both) / 2) < 4 * values.std().item() / 20


@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_lower_precision_agrees_with_float64_for_the_same_key(name):
    dtype = getattr(torch, name)
    embeddings, labels = small_batch(4)
    rounded = embeddings.to(dtype).requires_grad_()
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
        value = NPair()(rounded, labels, key=5)
    value.backward()
    exact = rounded.detach().double().requires_grad_()
    expected = NPair()(exact, labels, key=5)
    expected.backward()
    assert value.dtype == torch.float32
    torch.testing.assert_close(value.double(), expected, rtol=1e-5, atol=1e-6)
    # The gradients are rounded to the dtype of the embeddings: 2^-8 for bfloat16.
    tolerance = 2**-7 if dtype == torch.bfloat16 else 1e-4
    torch.testing.assert_close(rounded.grad.double(), exact.grad, rtol=tolerance, atol=1e-4)


def test_the_order_of_the_batch_does_not_matter_once_tuples_are_given():
    embeddings, labels = small_batch(5)
    order = torch.tensor([4, 2, 0, 9, 7, 5, 3, 1, 8, 6])
    place = order.argsort()
    indices = as_indices(
        [(a, p, n) for a, p in drawn_positives(embeddings, labels, 0).items() for n in negatives(labels.tolist(), a)]
    )
    moved = tuple(place[part] for part in indices)
    torch.testing.assert_close(NPair()(embeddings[order], labels[order], moved), NPair()(embeddings, labels, indices))


def test_without_a_complete_anchor_even_the_penalty_is_a_connected_zero():
    embeddings = small_batch(5)[0][:3].requires_grad_()
    loss = NPair(nu=1.0)
    value = loss(embeddings, torch.arange(3))
    value.backward()
    assert value.item() == 0
    assert not embeddings.grad.any()
    assert loss.usage.is_empty
