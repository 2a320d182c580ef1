"""Soft-hard mining: both constraints, both fallbacks, and independent uniform choice inside them."""

import torch

from tests.miners.frequencies import DRAWS, assert_frequencies, batch, drawn
from unseen.losses import Pairs
from unseen.miners import Hard, SoftHard


def candidates(pairs, anchor):
    """The hard positives and negatives of an anchor in plain loops, before any fallback."""
    distance = pairs.distance[anchor].tolist()
    others = range(len(distance))
    positives = [j for j in others if pairs.positive[anchor, j]]
    negatives = [j for j in others if pairs.negative[anchor, j]]
    nearest, farthest = min(distance[n] for n in negatives), max(distance[p] for p in positives)
    return [p for p in positives if distance[p] > nearest], [n for n in negatives if distance[n] < farthest]


def as_mask(columns, size):
    mask = torch.zeros(size, dtype=torch.float64)
    mask[columns] = 1
    return mask


def test_draws_are_hard_wherever_one_is():
    fallbacks = taken = 0
    for seed in range(20):
        embeddings, labels = batch(seed=seed)
        pairs = Pairs(embeddings, labels)
        for anchor, positive, negative in zip(*SoftHard()(embeddings, labels, key=seed), strict=True):
            positives, negatives = candidates(pairs, anchor)
            assert not positives or positive in positives
            assert not negatives or negative in negatives
            fallbacks += not positives
            taken += bool(positives)
    assert fallbacks > 0
    assert taken > 0


def test_positive_and_negative_are_uniform_in_their_sets_and_independent():
    embeddings, labels = batch(seed=3)
    pairs = Pairs(embeddings, labels)
    sizes = set()
    for anchor in (0, 5, 8):
        positives, negatives = candidates(pairs, anchor)
        sizes.add((len(positives), len(negatives)))
        positive, negative = drawn(SoftHard(per_anchor=DRAWS), embeddings, labels, anchor)
        weights = as_mask(positives, 14), as_mask(negatives, 14)
        assert_frequencies(positive, weights[0])
        assert_frequencies(negative, weights[1])
        assert_frequencies(positive * 14 + negative, torch.outer(*weights).flatten())
    assert max(sizes) > (1, 1)


def test_a_separated_batch_falls_back_to_any_positive_and_any_negative():
    labels = torch.arange(9) // 3
    embeddings = torch.eye(4, dtype=torch.float64)[labels] + 0.01 * batch(sizes=(3, 3, 3))[0]
    positive, negative = drawn(SoftHard(per_anchor=DRAWS), embeddings, labels, 0)
    assert_frequencies(positive, torch.tensor([0.0, 1, 1, 0, 0, 0, 0, 0, 0]))
    assert_frequencies(negative, (labels != 0).double())


def test_the_hardest_tuples_are_in_its_sets_where_classes_overlap():
    # The farthest positive is in its set exactly when the nearest negative is in its own.
    embeddings, labels = batch(seed=1)
    pairs = Pairs(embeddings, labels)
    for anchor, positive, negative in zip(*Hard()(embeddings, labels), strict=True):
        positives, negatives = candidates(pairs, anchor)
        assert (positive in positives) == (negative in negatives) == bool(positives) == bool(negatives)
