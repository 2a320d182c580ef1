"""Quadruplet against loops over all quadruplets, over drawn ones, and where there is no third class."""

from typing import Any

import pytest
import torch

from tests.losses.loops import all_triplets, as_indices, at_angles, distance, hinge, small_batch
from unseen.losses import Quadruplet, Triplet, Triplets
from unseen.losses.quadruplet import fourth_samples, quadruplet
from unseen.miners import MultiSimilarity, Random
from unseen.pairs.pairs import Pairs
from unseen.pairs.tuples import PairMasks


def mean(values):
    return sum(values) / max(1, len(values))


def in_loops(rows, triplets, quadruplets, margin=1.0, second_margin=0.5):
    first = [hinge(distance(rows[i], rows[j]) - distance(rows[i], rows[k]) + margin) for i, j, k in triplets]
    second = [
        hinge(distance(rows[i], rows[j]) - distance(rows[q], rows[k]) + second_margin) for i, j, k, q in quadruplets
    ]
    return mean(first) + mean(second), sum(x > 0 for x in first) + sum(x > 0 for x in second)


def all_quadruplets(labels):
    return [
        (i, j, k, q)
        for i, j, k in all_triplets(labels)
        for q in range(len(labels))
        if labels[q] not in (labels[i], labels[k])
    ]


MARGINS = [{}, {"margin": 0.2, "second_margin": 0.2}, {"margin": 0.0, "second_margin": 0.0}, {"second_margin": 9.0}]


@pytest.mark.parametrize("margins", MARGINS, ids=str)
@pytest.mark.parametrize("sizes", [(3, 2, 4, 1), (2, 3), (3, 3, 3), (2, 1, 1, 2, 1)], ids=str)
@pytest.mark.parametrize("seed", range(2))
def test_without_a_miner_it_equals_the_loops_over_all_quadruplets(seed, sizes, margins):
    embeddings, labels = small_batch(seed, sizes=sizes)
    triplets, quadruplets = all_triplets(labels.tolist()), all_quadruplets(labels.tolist())
    expected, active = in_loops(embeddings.tolist(), triplets, quadruplets, **margins)
    loss = Quadruplet(**margins)
    assert loss(embeddings, labels).item() == pytest.approx(expected, rel=1e-9)
    assert loss.usage.counts()["num_tuples"] == len(triplets) + len(quadruplets)
    assert loss.usage.counts()["num_active"] == active


def test_the_gradient_over_all_quadruplets_is_that_of_the_quadruplets_listed():
    embeddings, labels = small_batch(3)
    i, j, k, q = (torch.tensor(column) for column in zip(*all_quadruplets(labels.tolist()), strict=True))
    a, p, n = as_indices(all_triplets(labels.tolist()))
    leaf, again = (embeddings.clone().requires_grad_() for _ in range(2))
    Quadruplet()(leaf, labels).backward()
    d = Pairs(again, labels).distance
    ((d[a, p] - d[a, n] + 1).relu().mean() + (d[i, j] - d[q, k] + 0.5).relu().mean()).backward()
    torch.testing.assert_close(leaf.grad, again.grad)


def test_ties_at_the_boundary_are_counted_the_same_for_both_sides():
    # Right angles and opposites only: many equal distances, whose differences are exactly the margins.
    embeddings, labels = at_angles(*([0, 90, 180, 270] * 4)), torch.arange(16) // 4
    quadruplets = all_quadruplets(labels.tolist())
    for margin in (0.0, 2.0, 2.0 - 2**0.5):
        settings: dict[str, Any] = {"margin": margin, "second_margin": margin}
        expected, _ = in_loops(embeddings.tolist(), all_triplets(labels.tolist()), quadruplets, **settings)
        assert Quadruplet(**settings)(embeddings, labels).item() == pytest.approx(expected, rel=1e-6)


def test_chosen_pairs_meet_all_chosen_pairs_of_two_other_classes():
    embeddings, labels = small_batch(4)
    names = labels.tolist()
    kept = MultiSimilarity(epsilon=0.3)(embeddings, labels)
    positive = list(zip(kept.anchor_positive.tolist(), kept.positive.tolist(), strict=True))
    negative = list(zip(kept.anchor_negative.tolist(), kept.negative.tolist(), strict=True))
    triplets = [(a, p, n) for a, p in positive for b, n in negative if a == b]
    quadruplets = [(i, j, k, q) for i, j in positive for q, k in negative if names[i] not in (names[q], names[k])]
    expected, _ = in_loops(embeddings.tolist(), triplets, quadruplets)
    assert 0 < len(quadruplets) < len(all_quadruplets(names))
    for loss, indices in [(Quadruplet(), kept), (Quadruplet(miner=MultiSimilarity(epsilon=0.3)), None)]:
        assert loss(embeddings, labels, indices).item() == pytest.approx(expected, rel=1e-9)


def test_triplets_get_a_fourth_sample_each_from_the_key():
    embeddings, labels = small_batch(5)
    every = all_triplets(labels.tolist())[::2]
    indices = as_indices(every)
    loss = Quadruplet(margin=0.3)
    values = set()
    for key in range(5):
        fourth, has_fourth = fourth_samples(Pairs(embeddings, labels), Triplets(*indices), key)
        assert has_fourth.all()
        quadruplets = [(*triplet, q) for triplet, q in zip(every, fourth.tolist(), strict=True)]
        assert all(labels[q] not in (labels[i], labels[k]) for i, _, k, q in quadruplets)
        expected, active = in_loops(embeddings.tolist(), every, quadruplets, margin=0.3)
        values.add(loss(embeddings, labels, indices, key=key).item())
        assert loss(embeddings, labels, indices, key=key).item() == pytest.approx(expected, rel=1e-9)
        assert loss.usage.counts()["num_active"] == active
    assert len(values) == 5


def test_the_fourth_sample_is_uniform_over_third_classes():
    labels = torch.tensor([4, -7, 4, 9, 0, 9, -7, 0, 0, 12])
    pairs = Pairs(torch.ones(10, 2), labels)
    for anchor, negative in [(0, 1), (1, 0), (3, 9), (4, 5), (9, 4)]:
        triplets = Triplets(*(torch.full((6000,), index) for index in (anchor, anchor, negative)))
        fourth, has_fourth = fourth_samples(pairs, triplets, 11)
        allowed = [q for q in range(10) if labels[q] not in (labels[anchor], labels[negative])]
        counts = torch.bincount(fourth, minlength=10)
        assert has_fourth.all()
        assert counts.nonzero().flatten().tolist() == allowed
        # 5 to 7 cells: a chi-square this large has a chance below 1e-4.
        expected = 6000 / len(allowed)
        assert ((counts[allowed] - expected).square() / expected).sum() < 28


def test_with_two_classes_it_is_the_triplet_loss():
    embeddings, labels = small_batch(6, sizes=(4, 3))
    triplets = as_indices(all_triplets(labels.tolist()))
    other = Triplet(margin=1.0, squared=False)
    for indices in (None, triplets):
        value = Quadruplet(second_margin=5.0)(embeddings, labels, indices, key=1)
        assert value.item() == pytest.approx(other(embeddings, labels, indices).item())
    assert not fourth_samples(Pairs(embeddings, labels), Triplets(*triplets), 1)[1].any()


def test_margins_below_all_differences_cost_nothing():
    embeddings, labels = small_batch(7)
    pairs = Pairs(embeddings, labels)
    for chosen in (
        PairMasks(pairs.positive, pairs.negative),
        Triplets(*as_indices(all_triplets(labels.tolist()))),
    ):
        found = quadruplet(pairs, chosen, margin=-3.0, second_margin=-3.0, key=1)
        assert found.value.item() == 0
        assert found.num_active == 0


def test_the_second_term_ignores_the_distance_of_anchor_and_negative():
    labels = torch.tensor([0, 0, 1, 2])
    values = []
    for turn in (0, 30, 100):  # the pair (l, k) turns as one: its distance stays, those to the anchor change
        embeddings = at_angles(0, 20, 60 + turn, 90 + turn)
        pairs = Pairs(embeddings, labels)
        only = Triplets(*as_indices([(0, 1, 2)]))
        values.append(quadruplet(pairs, only, margin=-3.0, second_margin=0.5, key=1).value.item())
    near, apart = (distance(*at_angles(0, angle).tolist()) for angle in (20, 30))
    assert values == pytest.approx([near - apart + 0.5] * 3)


def test_a_mined_loss_equals_the_loss_of_the_mined_triplets():
    embeddings, labels = small_batch(8)
    mined = Random()(embeddings, labels, key=3)
    loss = Quadruplet(miner=Random())
    assert torch.equal(loss(embeddings, labels, key=3), Quadruplet()(embeddings, labels, mined, key=3))


def test_a_reference_set_gives_positives_and_negatives_and_the_batch_the_fourth():
    embeddings, labels = small_batch(9, sizes=(4, 4, 4))
    rows, names = embeddings.tolist(), labels.tolist()
    batch, reference = range(6), range(6, 12)
    triplets = [(i, j, k) for i in batch for j in reference for k in reference if names[i] == names[j] != names[k]]
    quadruplets = [(*t, q) for t in triplets for q in batch if names[q] not in (names[t[0]], names[t[2]])]
    expected, _ = in_loops(rows, triplets, quadruplets)
    value = Quadruplet()(embeddings[:6], labels[:6], ref_emb=embeddings[6:], ref_labels=labels[6:])
    assert value.item() == pytest.approx(expected, rel=1e-9)
