"""Lifted structure against loops, the weights of its pairs, and where its hinge is always active."""

import math

import pytest
import torch

from tests.losses.loops import all_triplets, as_indices, at_angles, cosine, hinge, negatives, positives, small_batch
from unseen.losses import LiftedStructure


def in_loops(rows, labels, threshold=0.0, reduction="sum", triplets=None):
    terms = []
    for i in range(len(rows)):
        if triplets is None:
            near, far = positives(labels, i), negatives(labels, i)
        else:
            near, far = ({t[k] for t in triplets if t[0] == i} for k in (1, 2))
        if near and far:
            pull = math.log(sum(math.exp(threshold - cosine(rows[i], rows[k])) for k in near))
            push = math.log(sum(math.exp(cosine(rows[i], rows[k]) - threshold) for k in far))
            terms.append(hinge(pull + push))
    return sum(terms) / (1 if reduction == "sum" else len(terms))


@pytest.mark.parametrize("threshold", [-1.0, 0.0, 0.5, 30.0])
@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_it_equals_the_loops_whatever_their_lambda(reduction, threshold):
    for seed in range(3):
        embeddings, labels = small_batch(seed)
        loss = LiftedStructure(reduction=reduction)
        expected = in_loops(embeddings.tolist(), labels.tolist(), threshold, reduction)
        assert loss(embeddings, labels).item() == pytest.approx(expected, rel=1e-9)
        some = all_triplets(labels.tolist())[::7]
        expected = in_loops(embeddings.tolist(), labels.tolist(), threshold, reduction, some)
        assert loss(embeddings, labels, as_indices(some)).item() == pytest.approx(expected, rel=1e-9)


def test_one_pair_of_each_kind_gives_the_hinge_of_their_similarities():
    embeddings, labels = at_angles(0, 60, 30), torch.tensor([0, 0, 1])
    near, far = math.cos(math.radians(60)), math.cos(math.radians(30))
    assert LiftedStructure()(embeddings, labels, as_indices([(0, 1, 2)])).item() == pytest.approx(far - near)
    separated = at_angles(0, 30, 60)
    loss = LiftedStructure()
    assert loss(separated, labels, as_indices([(0, 1, 2)])).item() == 0
    assert loss.usage.counts() | {"num_tuples": 2, "num_active": 0} == loss.usage.counts()


def test_the_gradient_gives_positives_and_negatives_their_softmax_weights():
    embeddings, labels = small_batch(2, sizes=(4, 5))  # 12 and 15 pairs (p, n) an anchor: every hinge is active
    classes = labels.tolist()
    leaf = embeddings.clone().requires_grad_()
    LiftedStructure()(leaf, labels).backward()
    rows = embeddings.tolist()
    weights = torch.zeros(9, 9, dtype=torch.float64)
    for i in range(9):
        pull = {k: math.exp(-cosine(rows[i], rows[k])) for k in positives(classes, i)}
        push = {k: math.exp(cosine(rows[i], rows[k])) for k in negatives(classes, i)}
        for k, term in pull.items():
            weights[i, k] = -term / sum(pull.values())
        for k, term in push.items():
            weights[i, k] = term / sum(push.values())
    other = embeddings.clone().requires_grad_()
    unit = torch.nn.functional.normalize(other)
    (weights * (unit @ unit.T)).sum().backward()
    torch.testing.assert_close(leaf.grad, other.grad)


def test_an_anchor_whose_hinge_is_inactive_moves_nothing():
    embeddings = at_angles(0, 1, 180).requires_grad_()
    value = LiftedStructure()(embeddings, torch.tensor([0, 0, 1]))
    value.backward()
    assert value.item() == 0
    assert not embeddings.grad.any()


def test_eight_pairs_of_pairs_always_push():
    # The best of all batches: positives at 1, negatives at -1. 2 x 4 > e^2 > 7.
    labels = torch.tensor([0, 0, 0, 1, 1, 1, 1])
    embeddings = at_angles(*(180 * int(label) for label in labels))
    found = LiftedStructure(reduction="mean")(
        embeddings, labels, as_indices([(0, p, n) for p in (1, 2) for n in range(3, 7)])
    )
    assert found.item() == pytest.approx(math.log(8) - 2)
    found = LiftedStructure()(embeddings, labels, as_indices([(0, p, n) for p in (1, 2) for n in range(3, 6)]))
    assert found.item() == 0


def test_positive_scale_of_each_embedding_does_not_matter():
    embeddings, labels = small_batch(3)
    scale = torch.arange(1, len(labels) + 1, dtype=torch.float64).unsqueeze(1)
    torch.testing.assert_close(LiftedStructure()(embeddings * scale, labels), LiftedStructure()(embeddings, labels))
