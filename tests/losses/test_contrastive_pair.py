"""The contrastive loss of pairs against loops, and beside the contrastive loss with its two means."""

import pytest
import torch

from tests.losses.loops import at_angles, distance, hinge, small_batch
from unseen.losses import Contrastive, ContrastivePair, Pairs


@pytest.mark.parametrize("squared", [False, True])
def test_it_equals_the_mean_of_the_loops(squared):
    embeddings, labels = small_batch(1)
    rows, names = embeddings.tolist(), labels.tolist()
    losses = {}
    for i in range(len(rows)):
        for j in range(len(rows)):
            d = distance(rows[i], rows[j])
            x = hinge(d - 0.1) if names[i] == names[j] else hinge(1.2 - d)
            losses[i, j] = x * x / 2 if squared else x
    loss = ContrastivePair(positive_margin=0.1, negative_margin=1.2, squared=squared)
    off_diagonal = [x for (i, j), x in losses.items() if i != j]
    assert loss(embeddings, labels).item() == pytest.approx(sum(off_diagonal) / len(off_diagonal), rel=1e-12)
    terms = loss.terms(Pairs(embeddings, labels))
    for (i, j), expected in losses.items():
        if i != j:
            assert terms.values[i, j].item() == pytest.approx(expected, abs=1e-12)
    assert terms.neutral is None


def test_with_as_many_positive_as_negative_pairs_it_is_half_of_the_contrastive_loss():
    embeddings, labels = at_angles(0, 40, 100), torch.tensor([0, 0, 1])
    indices = tuple(torch.tensor([x]) for x in (0, 1, 0, 2))
    value = ContrastivePair(negative_margin=1.8)(embeddings, labels, indices)
    assert value.item() == pytest.approx(Contrastive(negative_margin=1.8)(embeddings, labels, indices).item() / 2)


def test_perfect_batches_cost_nothing_beyond_the_rounding_of_distances():
    embeddings, labels = at_angles(0, 0, 90, 90), torch.tensor([0, 0, 1, 1])
    assert ContrastivePair()(embeddings, labels).item() <= 1e-4  # a distance of 0 is 1e-4
