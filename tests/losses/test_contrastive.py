"""Contrastive against loops, closed forms and its gradient."""

import pytest
import torch

from tests.losses.loops import all_triplets, as_indices, at_angles, distance, hinge, negatives, positives, small_batch
from unseen.losses import Contrastive


def in_loops(rows, pulled, pushed, positive_margin=0.0, negative_margin=1.0, squared=False):
    def shape(x):
        return x * x / 2 if squared else x

    pull = [shape(hinge(distance(rows[i], rows[j]) - positive_margin)) for i, j in pulled]
    push = [shape(hinge(negative_margin - distance(rows[i], rows[j]))) for i, j in pushed]
    return sum(pull) / max(1, len(pull)) + sum(push) / max(1, len(push))


@pytest.mark.parametrize("settings", [{}, {"positive_margin": 0.3, "negative_margin": 1.3}, {"squared": True}], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_it_equals_the_loops_over_all_pairs_and_over_triplets(seed, settings):
    embeddings, labels = small_batch(seed)
    rows, classes = embeddings.tolist(), labels.tolist()
    loss = Contrastive(**settings)
    pulled = [(i, j) for i in range(len(rows)) for j in positives(classes, i)]
    pushed = [(i, j) for i in range(len(rows)) for j in negatives(classes, i)]
    assert loss(embeddings, labels).item() == pytest.approx(in_loops(rows, pulled, pushed, **settings), rel=1e-9)
    triplets = all_triplets(classes)[::7] * 2  # a repeated triplet counts again
    expected = in_loops(rows, [(a, p) for a, p, _ in triplets], [(a, n) for a, _, n in triplets], **settings)
    assert loss(embeddings, labels, as_indices(triplets)).item() == pytest.approx(expected, rel=1e-9)
    pairs = (*as_indices(pulled[::2]), *as_indices(pushed[::3]))
    expected = in_loops(rows, pulled[::2], pushed[::3], **settings)
    assert loss(embeddings, labels, pairs).item() == pytest.approx(expected, rel=1e-9)


def test_two_points_have_their_distance_or_what_it_lacks_to_the_margin():
    right_angle = at_angles(0, 90)
    assert Contrastive()(right_angle, torch.tensor([1, 1])).item() == pytest.approx(2**0.5)
    assert Contrastive(negative_margin=1.5)(right_angle, torch.tensor([0, 1])).item() == pytest.approx(1.5 - 2**0.5)


def test_identical_classes_beyond_the_margin_cost_nothing():
    loss = Contrastive(positive_margin=1e-3)  # identical points are 1e-4 apart, by the epsilon under the root
    value = loss(at_angles(0, 0, 90, 90), torch.tensor([0, 0, 1, 1]))
    assert value.item() == 0
    assert loss.usage.counts() == {
        "anchors": 4,
        "without_positive": 0,
        "without_negative": 0,
        "num_tuples": 12,
        "num_active": 0,
    }


def test_a_negative_pair_is_pushed_with_strength_one_over_n_and_not_at_all_beyond_the_margin():
    embeddings = at_angles(0, 40, 180).requires_grad_()
    Contrastive()(embeddings, torch.tensor([0, 1, 2])).backward()
    # Ordered pairs: 6; the pair at 40 degrees is in two of them. On the circle the tangential pull is cos(half angle).
    half_angle = torch.deg2rad(torch.tensor(20.0)).cos().item()
    assert embeddings.grad[0].norm().item() == pytest.approx(2 / 6 * half_angle, rel=1e-6)
    assert embeddings.grad[2].norm().item() == 0


def test_a_reference_set_equals_the_loops_over_its_columns():
    embeddings, labels = small_batch(1)
    reference, ref_labels = small_batch(2)
    rows, columns = embeddings.tolist(), reference.tolist()
    both = rows + columns
    crossing = [(i, len(rows) + j) for i in range(len(rows)) for j in range(len(columns))]
    pulled = [(i, j) for i, j in crossing if labels[i] == ref_labels[j - len(rows)]]
    pushed = [(i, j) for i, j in crossing if labels[i] != ref_labels[j - len(rows)]]
    value = Contrastive()(embeddings, labels, ref_emb=reference, ref_labels=ref_labels)
    assert value.item() == pytest.approx(in_loops(both, pulled, pushed), rel=1e-9)
