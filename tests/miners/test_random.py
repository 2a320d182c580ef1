"""Random mining: uniform over positives and over negatives, independently."""

import torch

from tests.miners.frequencies import DRAWS, assert_frequencies, batch, drawn
from unseen.miners import Random


def test_positives_and_negatives_come_equally_often_and_independently():
    embeddings, labels = batch()
    for anchor in (0, 5, 13):
        positive, negative = drawn(Random(per_anchor=DRAWS), embeddings, labels, anchor)
        others = labels == labels[anchor]
        others[anchor] = False
        assert_frequencies(positive, others.double())
        assert_frequencies(negative, (labels != labels[anchor]).double())
        joint = torch.outer(others.double(), (labels != labels[anchor]).double()).flatten()
        assert_frequencies(positive * len(labels) + negative, joint)


def test_each_anchor_gives_as_many_triplets_as_asked_for():
    embeddings, labels = batch()
    found = Random(per_anchor=3)(embeddings, labels, key=1)
    assert found.anchor.tolist() == [anchor for anchor in range(len(labels)) for _ in range(3)]


def test_other_keys_give_other_triplets():
    embeddings, labels = batch()
    first, second = (Random()(embeddings, labels, key=key) for key in (1, 2))
    assert not torch.equal(first.negative, second.negative)
