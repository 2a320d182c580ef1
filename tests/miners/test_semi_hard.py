"""Semi-hard mining: the constraint, its fallback, and uniform choice inside it."""

import torch

from tests.miners.frequencies import assert_frequencies, batch
from unseen.losses import Pairs
from unseen.miners import SemiHard


def candidates(pairs, anchor, positive, margin):
    near = pairs.distance[anchor, positive]
    return pairs.negative[anchor] & (pairs.distance[anchor] > near) & (pairs.distance[anchor] < near + margin)


def test_negatives_are_semi_hard_wherever_one_is():
    fallbacks = 0
    for seed in range(20):
        embeddings, labels = batch(seed=seed)
        pairs = Pairs(embeddings, labels)
        for anchor, positive, negative in zip(*SemiHard(margin=0.1)(embeddings, labels, key=seed), strict=True):
            allowed = candidates(pairs, anchor, positive, 0.1)
            assert allowed[negative] or not allowed.any()
            fallbacks += int(not allowed.any())
    assert 0 < fallbacks < 20 * 14  # both ways were taken


def test_choices_inside_the_constraint_and_in_the_fallback_are_uniform():
    embeddings, labels = batch(seed=3)
    pairs = Pairs(embeddings, labels)
    found = SemiHard(per_anchor=1000)(embeddings, labels, key=1)
    kinds = set()
    for anchor in range(len(labels)):
        positives, negatives = found.positive[found.anchor == anchor], found.negative[found.anchor == anchor]
        assert_frequencies(positives, pairs.positive[anchor].double())
        for positive in positives.unique():
            allowed = candidates(pairs, anchor, positive, 0.2)
            expected = allowed if allowed.any() else pairs.negative[anchor]
            assert_frequencies(negatives[positives == positive], expected.double())
            kinds.add(bool(allowed.any()))
    assert kinds == {True, False}


def test_distances_are_not_squared():
    # Chords of 0.5 and 0.65 differ by 0.15, their squares by 0.17: only un-squared within 0.16.
    angles = 2 * torch.tensor([0.0, 0.25, 0.325, 0.9]).asin()
    embeddings = torch.stack((angles.cos(), angles.sin()), 1)
    labels = torch.tensor([0, 0, 1, 2])
    for key in range(20):
        assert SemiHard(margin=0.16)(embeddings, labels, key=key).negative[0] == 2
