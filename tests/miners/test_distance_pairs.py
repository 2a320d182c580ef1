"""Distance pairs: all positives, as many different negatives, and the frequencies of their draw."""

import math

import pytest
import torch

from tests.miners.frequencies import assert_frequencies, batch
from unseen.losses import Contrastive, Pairs
from unseen.miners import DistancePairs, DistanceWeighted
from unseen.pairs.random_choice import draw_distinct, gumbel_numbers


def counts_of(found, size):
    return torch.bincount(found.anchor_positive, minlength=size), torch.bincount(found.anchor_negative, minlength=size)


def test_every_positive_pair_is_kept_with_as_many_negatives_of_its_anchor():
    for seed in range(10):
        embeddings, labels = batch(width=2, seed=seed)
        pairs = Pairs(embeddings, labels)
        found = DistancePairs()(embeddings, labels, key=seed)
        assert torch.equal(torch.stack((found.anchor_positive, found.positive), 1), pairs.positive.nonzero())
        positives, negatives = counts_of(found, 14)
        assert torch.equal(positives, negatives)
        assert len(torch.stack((found.anchor_negative, found.negative), 1).unique(dim=0)) == len(found.negative)


def test_an_anchor_with_fewer_negatives_than_positives_gives_them_all():
    embeddings, labels = batch(sizes=(5, 2))
    found = DistancePairs()(embeddings, labels, key=1)
    assert counts_of(found, 7)[1].tolist() == [2, 2, 2, 2, 2, 1, 1]


def test_wide_embeddings_lose_no_negative_to_underflow():
    labels = torch.arange(60) // 5
    embeddings = torch.randn(60, 1024, generator=torch.Generator().manual_seed(0))
    for upper_cutoff in (1.4, None):
        assert (counts_of(DistancePairs(upper_cutoff=upper_cutoff)(embeddings, labels, key=1), 60)[1] == 4).all()


def test_one_negative_is_drawn_with_the_weights_of_distance_weighting():
    embeddings, labels = batch(sizes=(2, 3, 4))
    expected = DistanceWeighted().weights(Pairs(embeddings, labels))[0]
    found = [DistancePairs()(embeddings, labels, key=key) for key in range(1500)]
    assert_frequencies(torch.cat([one.negative[one.anchor_negative == 0] for one in found]), expected)


def test_negatives_beyond_the_cutoff_come_last_and_uniformly():
    # From the point at 0 degrees: negatives at chords of 0.5, 1.73 and 2, of which the last two are beyond 1.4.
    angles = torch.tensor([0.0, 10.0, -10.0, 30.0, 120.0, 180.0]).deg2rad()
    embeddings, labels = torch.stack((angles.cos(), angles.sin()), 1), torch.tensor([0, 0, 0, 1, 2, 3])
    drawn = []
    for key in range(1000):
        found = DistancePairs()(embeddings, labels, key=key)
        of_first = found.negative[found.anchor_negative == 0].tolist()
        assert of_first[0] == 3
        drawn += of_first[1:]
    assert_frequencies(torch.tensor(drawn), torch.tensor([0.0, 0, 0, 0, 1, 1]))


def test_distinct_draws_follow_the_odds_of_those_that_are_left():
    weights = torch.tensor([5.0, 0.0, 1.0, 2.0], dtype=torch.float64)
    gumbel = gumbel_numbers(Pairs(torch.ones(4000, 1), torch.zeros(4000).long(), torch.ones(4, 1), torch.arange(4)), 1)
    counts = torch.full((4000,), 2)
    chosen = draw_distinct(weights.log().expand(4000, 4), counts, gumbel)
    assert (chosen.sum(1) == 2).all()

    def chance(first, second):
        rest = weights.sum() - weights[first]
        return weights[first] / weights.sum() * weights[second] / rest

    pairs = [(0, 2), (0, 3), (2, 3)]
    expected = torch.tensor([chance(i, j) + chance(j, i) for i, j in pairs])
    assert math.isclose(expected.sum().item(), 1)
    found = torch.stack([chosen[:, i] & chosen[:, j] for i, j in pairs], 1).long().argmax(1)
    assert_frequencies(found, expected)


def test_gumbel_numbers_are_finite_at_both_ends_and_have_their_distribution():
    embeddings, labels = torch.ones(300, 1), torch.arange(300)
    numbers = gumbel_numbers(Pairs(embeddings, labels), 3).flatten().double()
    assert numbers.isfinite().all()
    # 5e-3: 90,000 numbers err by about 1.3 / 300 in each of these.
    for value in (-1.0, 0.0, 2.0):
        assert (numbers < value).double().mean().item() == pytest.approx(math.exp(-math.exp(-value)), abs=5e-3)


def test_distinct_draws_give_what_there_is_when_asked_for_more():
    weights = torch.tensor([[0.0, -torch.inf, -5000.0], [-torch.inf] * 3, [0.0, 0.0, 0.0]])
    chosen = draw_distinct(weights, torch.tensor([3, 2, 0]), torch.zeros(3, 3))
    assert chosen.tolist() == [[True, False, True], [False] * 3, [False] * 3]


def test_losses_take_the_masks_as_they_take_the_indices():
    embeddings, labels = batch()
    miner = DistancePairs()
    by_masks = Contrastive(miner=miner)(embeddings, labels, key=4)
    assert torch.equal(by_masks, Contrastive()(embeddings, labels, miner(embeddings, labels, key=4)))
