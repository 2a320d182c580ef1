"""The margin loss of pairs against loops, and its slope."""

import pytest
import torch

from tests.losses.loops import as_indices, at_angles, cosine, hinge, small_batch
from unseen.losses import MarginPair, Pairs


def in_loops(rows, labels, pairs, margin=0.2, threshold=0.5):
    losses = []
    for i, j in pairs:
        sign = 1 if labels[i] == labels[j] else -1
        losses.append(hinge(margin + sign * (threshold - cosine(rows[i], rows[j]))))
    return losses


def all_pairs(labels):
    return [(i, j) for i in range(len(labels)) for j in range(len(labels)) if i != j]


def test_it_equals_the_mean_of_the_loops_over_all_pairs_and_over_some():
    embeddings, labels = small_batch(1)
    loss = MarginPair(margin=0.15, threshold=0.4)
    expected = in_loops(embeddings.tolist(), labels.tolist(), all_pairs(labels), 0.15, 0.4)
    assert loss(embeddings, labels).item() == pytest.approx(sum(expected) / len(expected), rel=1e-10)
    assert loss.usage.counts()["num_tuples"] == len(expected)
    assert loss.usage.counts()["num_active"] == sum(x > 0 for x in expected)
    is_same = labels[:, None] == labels
    positive = (is_same & ~torch.eye(len(labels), dtype=torch.bool)).nonzero()[::3]
    negative = (~is_same).nonzero()[::7]
    some = [tuple(pair) for pair in [*positive.tolist(), *negative.tolist()]]
    expected = in_loops(embeddings.tolist(), labels.tolist(), some, 0.15, 0.4)
    indices = (*as_indices(positive.tolist()), *as_indices(negative.tolist()))
    assert loss(embeddings, labels, indices).item() == pytest.approx(sum(expected) / len(expected), rel=1e-10)


def test_its_terms_are_the_losses_of_the_pairs():
    embeddings, labels = small_batch(2)
    terms = MarginPair().terms(Pairs(embeddings, labels))
    for i, j in all_pairs(labels):
        (expected,) = in_loops(embeddings.tolist(), labels.tolist(), [(i, j)])
        assert terms.values[i, j].item() == pytest.approx(expected, abs=1e-12)
        assert terms.is_positive[i, j] == (labels[i] == labels[j])
        assert terms.is_negative[i, j] == (labels[i] != labels[j])
    assert not (terms.is_positive | terms.is_negative).diagonal().any()
    assert terms.is_mutual
    assert terms.neutral == (0.2, 0.2)
    assert not MarginPair().terms(Pairs(embeddings, labels, embeddings[:3], labels[:3])).is_mutual


@pytest.mark.parametrize(("degrees", "positive", "negative"), [(60, 0.2, 0.2), (30, 0.0, 0.566025), (90, 0.7, 0.0)])
def test_positives_pay_below_the_threshold_plus_margin_and_negatives_above_it_less_the_margin(
    degrees, positive, negative
):
    embeddings = at_angles(0, degrees)
    assert MarginPair()(embeddings, torch.tensor([0, 0])).item() == pytest.approx(positive, abs=1e-6)
    assert MarginPair()(embeddings, torch.tensor([0, 1])).item() == pytest.approx(negative, abs=1e-6)


def test_a_large_margin_makes_all_pairs_active_with_slopes_of_one():
    embeddings, labels = small_batch(3)
    pairs = Pairs(embeddings.requires_grad_(), labels)
    terms = MarginPair(margin=10).terms(pairs)
    (slope,) = torch.autograd.grad(terms.values.sum(), pairs.similarity)
    torch.testing.assert_close(slope, torch.where(pairs.same, -1.0, 1.0).double())
