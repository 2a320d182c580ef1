"""Multi-similarity mining against loops, and how the kept pairs depend on epsilon."""

import itertools

import pytest
import torch

from tests.miners.frequencies import batch
from unseen.losses import Pairs
from unseen.miners import MultiSimilarity


def in_loops(similarity, labels, epsilon):
    kept_positive, kept_negative = set(), set()
    for i in range(len(labels)):
        positives = [k for k in range(len(labels)) if k != i and labels[k] == labels[i]]
        negatives = [k for k in range(len(labels)) if labels[k] != labels[i]]
        if positives and negatives:
            farthest = min(similarity[i][k] for k in positives)
            nearest = max(similarity[i][k] for k in negatives)
            kept_positive |= {(i, k) for k in positives if similarity[i][k] < nearest + epsilon}
            kept_negative |= {(i, k) for k in negatives if similarity[i][k] > farthest - epsilon}
    return kept_positive, kept_negative


def as_sets(found):
    first = set(zip(found.anchor_positive.tolist(), found.positive.tolist(), strict=True))
    return first, set(zip(found.anchor_negative.tolist(), found.negative.tolist(), strict=True))


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.7])
@pytest.mark.parametrize("seed", range(3))
def test_kept_pairs_equal_the_loops(seed, epsilon):
    embeddings, labels = batch(seed=seed, sizes=(4, 3, 1, 5))
    found = as_sets(MultiSimilarity(epsilon=epsilon)(embeddings, labels))
    assert found == in_loops(Pairs(embeddings, labels).similarity.tolist(), labels.tolist(), epsilon)


def test_kept_sets_grow_with_epsilon_up_to_all_pairs():
    embeddings, labels = batch(seed=1)
    sets = [as_sets(MultiSimilarity(epsilon=epsilon)(embeddings, labels)) for epsilon in (0.0, 0.1, 0.5, 2.1)]
    for (small_positive, small_negative), (positive, negative) in itertools.pairwise(sets):
        assert small_positive <= positive
        assert small_negative <= negative
    pairs = Pairs(embeddings, labels)
    assert len(sets[-1][0]) == int(pairs.positive.sum())
    assert len(sets[-1][1]) == int(pairs.negative.sum())


def test_classes_apart_by_more_than_epsilon_keep_nothing():
    embeddings = torch.eye(4, dtype=torch.float64).repeat_interleave(3, 0)
    found = MultiSimilarity(epsilon=0.9)(embeddings, torch.arange(12) // 3)
    assert all(len(part) == 0 for part in found)
