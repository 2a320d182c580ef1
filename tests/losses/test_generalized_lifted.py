"""Generalized lifted structure against loops, closed forms and the invariances of raw distances."""

import math

import pytest
import torch

from tests.losses.loops import all_triplets, as_indices, hinge, negatives, positives, small_batch
from unseen.losses import GeneralizedLifted


def raw_distance(first, second):
    return math.sqrt(sum((x - y) ** 2 for x, y in zip(first, second, strict=True)) + 1e-8)


def in_loops(rows, labels, margin=1.0, nu=0.005, regularizer="squared_norm", triplets=None):
    terms = []
    for a in range(len(rows)):
        if triplets is None:
            near, far = positives(labels, a), negatives(labels, a)
        else:
            near, far = ({t[k] for t in triplets if t[0] == a} for k in (1, 2))
        if near and far:
            pull = math.log(sum(math.exp(raw_distance(rows[a], rows[p])) for p in near))
            push = math.log(sum(math.exp(margin - raw_distance(rows[a], rows[n])) for n in far))
            terms.append(hinge(pull + push))
    if not terms:
        return 0.0
    lengths = [sum(x * x for x in row) ** (1.0 if regularizer == "squared_norm" else 0.5) for row in rows]
    return sum(terms) / len(terms) + nu * sum(lengths) / len(rows)


@pytest.mark.parametrize("settings", [{}, {"nu": 0.0}, {"margin": 0.3, "nu": 0.1, "regularizer": "norm"}], ids=str)
def test_it_equals_the_loops_over_all_pairs_and_over_some(settings):
    for seed in range(3):
        embeddings, labels = small_batch(seed)
        loss = GeneralizedLifted(**settings)
        expected = in_loops(embeddings.tolist(), labels.tolist(), **settings)
        assert loss(embeddings, labels).item() == pytest.approx(expected, rel=1e-9)
        some = all_triplets(labels.tolist())[::7]
        expected = in_loops(embeddings.tolist(), labels.tolist(), triplets=some, **settings)
        assert loss(embeddings, labels, as_indices(some)).item() == pytest.approx(expected, rel=1e-9)


def test_one_positive_and_one_negative_give_the_triplet_hinge():
    embeddings = torch.tensor([[0.0, 0.0], [3.0, 0.0], [0.0, 3.5], [0.0, 9.0]], dtype=torch.float64)
    labels = torch.tensor([0, 0, 1, 2])
    loss = GeneralizedLifted(nu=0.0)
    assert loss(embeddings, labels, as_indices([(0, 1, 2)])).item() == pytest.approx(0.5)
    assert loss.usage.counts()["num_active"] == 2
    assert loss(embeddings, labels, as_indices([(0, 1, 3)])).item() == 0
    assert loss.usage.counts()["num_active"] == 0


def test_a_far_negative_adds_less_than_the_exponential_of_its_gap():
    embeddings = torch.tensor([[0.0, 0.0], [3.0, 0.0], [0.0, 2.0]], dtype=torch.float64)
    loss = GeneralizedLifted(nu=0.0)
    near = loss(embeddings, torch.tensor([0, 0, 1]), as_indices([(0, 1, 2)])).item()
    for gap in (1.0, 5.0, 20.0):
        more = torch.cat((embeddings, torch.tensor([[0.0, 2.0 + gap]], dtype=torch.float64)))
        with_far = loss(more, torch.tensor([0, 0, 1, 2]), as_indices([(0, 1, 2), (0, 1, 3)])).item()
        assert 0 < with_far - near < math.exp(-gap)


def test_a_shift_of_all_embeddings_does_not_matter_without_the_penalty():
    embeddings, labels = small_batch(4)
    shifted = embeddings + torch.tensor([5.0, -3.0, 0.0, 1.0, 2.0], dtype=torch.float64)
    free, penalised = GeneralizedLifted(nu=0.0), GeneralizedLifted()
    torch.testing.assert_close(free(shifted, labels), free(embeddings, labels))
    assert penalised(shifted, labels) > penalised(embeddings, labels)


def test_lengths_matter():
    embeddings, labels = small_batch(4)
    loss = GeneralizedLifted(nu=0.0)
    assert not torch.isclose(loss(2 * embeddings, labels), loss(embeddings, labels))


@pytest.mark.parametrize("labels", [torch.arange(3), torch.zeros(3, dtype=torch.int64)], ids=["distinct", "one class"])
def test_without_a_complete_anchor_even_the_penalty_is_a_connected_zero(labels):
    embeddings = small_batch(5)[0][:3].requires_grad_()
    loss = GeneralizedLifted(nu=1.0)
    value = loss(embeddings, labels)
    value.backward()
    assert value.item() == 0
    assert not embeddings.grad.any()
    assert loss.usage.is_empty
