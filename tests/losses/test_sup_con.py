"""SupCon against loops, its closed form, InfoNCE, and pytorch-metric-learning."""

import math
import warnings

import pytest
import torch

from tests.losses.loops import as_indices, at_angles, cosine, negatives, positives, small_batch
from unseen.losses import SupCon
from unseen.miners import MultiSimilarity, Random


def in_loops(rows, labels, temperature=0.1):
    values = []
    for i in range(len(rows)):
        everyone = positives(labels, i) + negatives(labels, i)
        denominator = sum(math.exp(cosine(rows[i], rows[k]) / temperature) for k in everyone)
        terms = [math.log(math.exp(cosine(rows[i], rows[p]) / temperature) / denominator) for p in positives(labels, i)]
        if terms:
            values.append(-sum(terms) / len(terms))
    return sum(values) / max(1, len(values))


@pytest.mark.parametrize("temperature", [0.05, 0.1, 0.5, 3.0])
def test_it_equals_the_loops(temperature):
    for seed in range(3):
        embeddings, labels = small_batch(seed)
        value = SupCon(temperature=temperature)(embeddings, labels)
        assert value.item() == pytest.approx(in_loops(embeddings.tolist(), labels.tolist(), temperature), rel=1e-10)


@pytest.mark.parametrize("sizes", [(2,), (5,), (3, 2), (4, 4, 1)], ids=str)
def test_equal_similarities_give_the_log_of_the_number_of_others(sizes):
    labels = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    identical = torch.ones(len(labels), 4, dtype=torch.float64)
    orthogonal = torch.eye(len(labels), dtype=torch.float64)
    for embeddings in (identical, orthogonal):
        assert SupCon()(embeddings, labels).item() == pytest.approx(math.log(len(labels) - 1), abs=1e-12)


def test_one_positive_each_is_the_cross_entropy_of_info_nce():
    embeddings, labels = small_batch(1, sizes=(2, 2, 2, 2))
    unit = torch.nn.functional.normalize(embeddings)
    logits = (unit @ unit.T / 0.2).fill_diagonal_(-torch.inf)
    twin = torch.tensor([positives(labels.tolist(), i)[0] for i in range(8)])
    expected = torch.nn.functional.cross_entropy(logits, twin)
    torch.testing.assert_close(SupCon(temperature=0.2)(embeddings, labels), expected)


def test_many_positives_bound_it_from_below_by_the_log_of_their_number():
    # The best softmax shares itself equally among |P| positives: -log(1/|P|).
    labels = torch.arange(9) // 3
    embeddings = torch.eye(3, dtype=torch.float64)[labels]
    assert SupCon(temperature=0.01)(embeddings, labels).item() == pytest.approx(math.log(2), abs=1e-12)


def test_a_small_temperature_overflows_nothing():
    embeddings, labels = small_batch(2)
    leaf = embeddings.float().requires_grad_()
    value = SupCon(temperature=1e-4)(leaf, labels)
    value.backward()
    assert value.isfinite()
    assert leaf.grad.isfinite().all()


def test_chosen_pairs_are_the_whole_softmax():
    embeddings, labels = at_angles(0, 30, 100, 60), torch.tensor([0, 0, 1, 1])
    near, far = (math.cos(math.radians(angle)) / 0.1 for angle in (30, 100))
    expected = math.log1p(math.exp(far - near))
    loss = SupCon()
    assert loss(embeddings, labels, as_indices([(0, 1, 2)])).item() == pytest.approx(expected)
    assert loss.usage.counts()["num_tuples"] == 2


def test_a_batch_without_positives_costs_a_connected_zero():
    embeddings = at_angles(0, 10, 20).requires_grad_()
    loss = SupCon()
    value = loss(embeddings, torch.arange(3))
    value.backward()
    assert value.item() == 0
    assert not embeddings.grad.any()
    assert loss.usage.is_empty


def test_it_agrees_with_pytorch_metric_learning_in_value_and_gradient():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        losses = pytest.importorskip("pytorch_metric_learning.losses")
    embeddings, labels = small_batch(3)
    chosen = [None, MultiSimilarity()(embeddings, labels), Random()(embeddings, labels, key=1)]
    for indices in chosen:
        found = []
        for loss in (SupCon(), losses.SupConLoss(temperature=0.1)):
            leaf = embeddings.clone().requires_grad_()
            value = loss(leaf, labels, indices)
            value.backward()
            found.append((value.detach(), leaf.grad))
        torch.testing.assert_close(*found)
    pairs, twins = small_batch(4, sizes=(2, 2, 2))
    theirs = losses.NTXentLoss(temperature=0.1)(pairs, twins)
    torch.testing.assert_close(SupCon()(pairs, twins), theirs, check_dtype=False)
