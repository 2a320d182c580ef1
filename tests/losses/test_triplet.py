"""Triplet against loops, closed forms and its own count of active triplets."""

import pytest
import torch

from tests.losses.loops import (
    all_triplets,
    as_indices,
    at_angles,
    cosine,
    distance,
    hinge,
    small_batch,
    squared_distance,
)
from unseen.losses import Triplet
from unseen.miners import MultiSimilarity, Random


def in_loops(rows, triplets, margin=0.2, squared=True, reduction="all"):
    measure = squared_distance if squared else distance
    terms = [hinge(measure(rows[a], rows[p]) - measure(rows[a], rows[n]) + margin) for a, p, n in triplets]
    count = len(terms) if reduction == "all" else sum(term > 0 for term in terms)
    return sum(terms) / max(1, count), sum(term > 0 for term in terms)


SETTINGS = [{}, {"squared": False, "margin": 0.05}, {"reduction": "active"}, {"squared": False, "reduction": "active"}]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_it_equals_the_loops_over_all_triplets_and_over_some(seed, settings):
    embeddings, labels = small_batch(seed)
    loss = Triplet(**settings)
    every = all_triplets(labels.tolist())
    for triplets, indices in [(every, None), (every[::5] * 2, as_indices(every[::5] * 2))]:
        expected, active = in_loops(embeddings.tolist(), triplets, **settings)
        assert loss(embeddings, labels, indices).item() == pytest.approx(expected, rel=1e-9)
        assert loss.usage.counts()["num_tuples"] == len(triplets)
        assert loss.usage.counts()["num_active"] == active


@pytest.mark.parametrize("squared", [True, False])
def test_all_triplets_at_once_have_the_gradient_of_all_triplets_listed(squared):
    embeddings, labels = small_batch(3, sizes=(5, 4, 6, 1))
    loss = Triplet(squared=squared)
    gradients = []
    for indices in (None, as_indices(all_triplets(labels.tolist()))):
        leaf = embeddings.clone().requires_grad_()
        loss(leaf, labels, indices).backward()
        gradients.append(leaf.grad)
    torch.testing.assert_close(*gradients)


def test_ties_at_the_boundary_are_counted_the_same_for_both_sides():
    # Many equal distances and a margin that is exactly a difference of two of them.
    embeddings, labels = at_angles(*([0, 90, 180, 270] * 4)), torch.arange(16) // 4
    loss = Triplet(margin=2.0)
    expected, _ = in_loops(embeddings.round(decimals=6).tolist(), all_triplets(labels.tolist()), margin=2.0)
    assert loss(embeddings, labels).item() == pytest.approx(expected, rel=1e-6)


def test_pairs_from_a_pair_miner_form_their_triplets():
    embeddings, labels = small_batch(4)
    kept = MultiSimilarity()(embeddings, labels)
    positive = set(zip(kept.anchor_positive.tolist(), kept.positive.tolist(), strict=True))
    negative = set(zip(kept.anchor_negative.tolist(), kept.negative.tolist(), strict=True))
    triplets = [(a, p, n) for a, p in sorted(positive) for b, n in sorted(negative) if a == b]
    expected, _ = in_loops(embeddings.tolist(), triplets)
    for loss, indices in [(Triplet(), kept), (Triplet(miner=MultiSimilarity()), None)]:
        assert loss(embeddings, labels, indices).item() == pytest.approx(expected, rel=1e-9)


def test_a_positive_as_far_as_the_negative_costs_the_margin():
    indices = as_indices([(0, 1, 2)])
    value = Triplet(margin=0.3)(at_angles(0, 50, -50), torch.tensor([0, 0, 1]), indices)
    assert value.item() == pytest.approx(0.3)


def test_a_negative_beyond_the_margin_costs_nothing():
    assert Triplet(margin=0.2)(at_angles(0, 10, 60), torch.tensor([0, 0, 1]), as_indices([(0, 1, 2)])).item() == 0


def test_squared_distances_are_similarities_on_the_sphere():
    embeddings, labels = small_batch(5)
    rows = embeddings.tolist()
    a, p, n = all_triplets(labels.tolist())[4]
    expected = hinge(2 * (cosine(rows[a], rows[n]) - cosine(rows[a], rows[p])) + 0.2)
    assert Triplet()(embeddings, labels, as_indices([(a, p, n)])).item() == pytest.approx(expected)


def test_a_mined_loss_equals_the_loss_of_the_mined_triplets():
    embeddings, labels = small_batch(6)
    mined = Random()(embeddings, labels, key=3)
    assert torch.equal(Triplet(miner=Random())(embeddings, labels, key=3), Triplet()(embeddings, labels, mined))


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_listed_triplets_have_the_gradient_that_autograd_finds(settings):
    embeddings, labels = small_batch(7, sizes=(5, 4, 6, 1))
    embeddings[1] = 2 * embeddings[0]  # a distance of 0
    found, expected = embeddings.clone().requires_grad_(), embeddings.clone().requires_grad_()
    anchor, positive, negative = as_indices([(0, 1, 2), (0, 2, 1), *all_triplets(labels.tolist())[::3]])
    loss = Triplet(**settings)
    loss(found, labels, (anchor, positive, negative)).backward()
    unit = torch.nn.functional.normalize(expected)
    gap = (2 - 2 * unit @ unit.T).clamp(min=0)
    distance = gap if loss.squared else (gap + 1e-8).sqrt()
    terms = (distance[anchor, positive] - distance[anchor, negative] + loss.margin).relu()
    count = len(terms) if loss.reduction == "all" else (terms > 0).sum()
    (terms.sum() / count).backward()
    torch.testing.assert_close(found.grad, expected.grad)
