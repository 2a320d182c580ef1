"""Hard mining: the extremes by loops, ties, and no part for the key."""

import torch

from tests.miners.frequencies import batch
from unseen.losses import Pairs, Triplet
from unseen.miners import Hard


def test_it_takes_the_farthest_positive_and_the_nearest_negative():
    for seed in range(10):
        embeddings, labels = batch(seed=seed)
        distance = Pairs(embeddings, labels).distance.tolist()
        for anchor, positive, negative in zip(*(part.tolist() for part in Hard()(embeddings, labels)), strict=True):
            classes = labels.tolist()
            positives = [j for j in range(14) if j != anchor and classes[j] == classes[anchor]]
            negatives = [j for j in range(14) if classes[j] != classes[anchor]]
            assert positive == max(positives, key=lambda j: distance[anchor][j])
            assert negative == min(negatives, key=lambda j: distance[anchor][j])


def test_the_key_plays_no_part():
    embeddings, labels = batch()
    first, second = (Hard()(embeddings, labels, key=key) for key in (1, 2))
    assert all(map(torch.equal, first, second))


def test_of_equally_hard_samples_the_first_is_taken():
    labels = torch.tensor([0, 0, 0, 1, 1])
    found = Hard()(torch.ones(5, 3), labels)
    assert found.positive.tolist() == [1, 0, 0, 4, 3]
    assert found.negative.tolist() == [3, 3, 3, 0, 0]


def test_no_triplet_of_the_batch_costs_more():
    embeddings, labels = batch(seed=2)
    # Batch hard holds the largest hinge of every anchor, so its mean is at least that over all triplets.
    assert Triplet(miner=Hard())(embeddings, labels) >= Triplet()(embeddings, labels)
