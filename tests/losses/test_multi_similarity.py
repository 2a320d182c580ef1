"""Multi-similarity against loops, closed forms and the weights of its pairs."""

import math

import pytest
import torch

from tests.losses.loops import at_angles, cosine, hinge, negatives, positives, small_batch
from unseen.losses import MultiSimilarity
from unseen.miners import MultiSimilarity as MultiSimilarityMiner


def in_loops(rows, labels, alpha=2.0, beta=40.0, threshold=0.5, reduction="batch", epsilon=None):
    total, kept = 0.0, 0
    for i in range(len(rows)):
        pull = {k: cosine(rows[i], rows[k]) for k in positives(labels, i)}
        push = {k: cosine(rows[i], rows[k]) for k in negatives(labels, i)}
        if epsilon is not None and pull and push:
            hardest_positive, hardest_negative = min(pull.values()), max(push.values())
            pull = {k: s for k, s in pull.items() if s < hardest_negative + epsilon}
            push = {k: s for k, s in push.items() if s > hardest_positive - epsilon}
        if pull and push:
            kept += 1
            total += math.log(1 + sum(math.exp(-alpha * (s - threshold)) for s in pull.values())) / alpha
            total += math.log(1 + sum(math.exp(beta * (s - threshold)) for s in push.values())) / beta
    return total / (len(rows) if reduction == "batch" else max(1, kept))


@pytest.mark.parametrize("epsilon", [None, 0.0, 0.1, 0.5])
@pytest.mark.parametrize(
    "settings", [{}, {"reduction": "kept"}, {"alpha": 5.0, "beta": 50.0, "threshold": 0.2}], ids=str
)
def test_it_equals_the_loops_with_and_without_mining(settings, epsilon):
    for seed in range(3):
        embeddings, labels = small_batch(seed)
        miner = None if epsilon is None else MultiSimilarityMiner(epsilon=epsilon)
        value = MultiSimilarity(**settings, miner=miner)(embeddings, labels)
        expected = in_loops(embeddings.tolist(), labels.tolist(), epsilon=epsilon, **settings)
        assert value.item() == pytest.approx(expected, rel=1e-9)


def test_one_pair_of_each_kind_gives_two_softplus():
    embeddings, labels = at_angles(0, 30, 100), torch.tensor([0, 0, 1])
    indices = tuple(torch.tensor([index]) for index in (0, 1, 0, 2))
    near, far = (torch.tensor(angle).deg2rad().cos().item() for angle in (30.0, 100.0))
    expected = math.log1p(math.exp(-2 * (near - 0.5))) / 2 + math.log1p(math.exp(40 * (far - 0.5))) / 40
    assert MultiSimilarity(reduction="kept")(embeddings, labels, indices).item() == pytest.approx(expected)
    assert MultiSimilarity(reduction="batch")(embeddings, labels, indices).item() == pytest.approx(expected / 3)


def test_sharp_weights_tend_to_the_hinges_of_the_hardest_pairs():
    embeddings, labels = small_batch(1)
    rows, classes = embeddings.tolist(), labels.tolist()
    expected = []
    for i in range(len(rows)):
        pull = [cosine(rows[i], rows[k]) for k in positives(classes, i)]
        push = [cosine(rows[i], rows[k]) for k in negatives(classes, i)]
        expected.append(hinge(0.5 - min(pull)) + hinge(max(push) - 0.5) if pull else 0.0)
    value = MultiSimilarity(alpha=1e5, beta=1e5)(embeddings, labels)
    assert value.item() == pytest.approx(sum(expected) / len(rows), abs=1e-4)


def test_the_gradient_gives_each_pair_its_stated_weight():
    embeddings, labels = small_batch(2, sizes=(3, 3))
    leaf = embeddings.clone().requires_grad_()
    MultiSimilarity()(leaf, labels).backward()
    unit = torch.nn.functional.normalize(embeddings).requires_grad_()
    similarity = unit @ unit.T
    weights = torch.zeros_like(similarity)
    for i in range(6):
        pull = {k: math.exp(-2 * (similarity[i, k].item() - 0.5)) for k in positives(labels.tolist(), i)}
        push = {k: math.exp(40 * (similarity[i, k].item() - 0.5)) for k in negatives(labels.tolist(), i)}
        for k, term in pull.items():
            weights[i, k] = -term / (1 + sum(pull.values())) / 6
        for k, term in push.items():
            weights[i, k] = term / (1 + sum(push.values())) / 6
    other = embeddings.clone().requires_grad_()
    normal = torch.nn.functional.normalize(other)
    (weights.detach() * (normal @ normal.T)).sum().backward()
    torch.testing.assert_close(leaf.grad, other.grad)


def test_a_generous_miner_keeps_all_pairs():
    embeddings, labels = small_batch(3)
    mined = MultiSimilarity(miner=MultiSimilarityMiner(epsilon=3.0))(embeddings, labels)
    torch.testing.assert_close(mined, MultiSimilarity()(embeddings, labels))


def test_a_batch_without_positives_costs_a_connected_zero():
    embeddings = at_angles(0, 10, 20).requires_grad_()
    loss = MultiSimilarity()
    value = loss(embeddings, torch.arange(3))
    value.backward()
    assert value.item() == 0
    assert not embeddings.grad.any()
    assert loss.usage.is_empty
    assert loss.usage.counts()["without_positive"] == 3
