"""HAP2S against loops, its two limits in sigma, and the gradient with constant weights."""

import math

import pytest
import torch

from tests.losses.loops import at_angles, distance, hinge, negatives, positives, small_batch
from unseen.losses import HAP2S, Pairs
from unseen.miners import MultiSimilarity


def soft_mean(values, exponents):
    weights = [math.exp(exponent) for exponent in exponents]
    return sum(w * value for w, value in zip(weights, values, strict=True)) / sum(weights)


def in_loops(rows, chosen, margin=0.2, sigma=0.5):
    """`chosen`: for each anchor its list of positives and its list of negatives."""
    terms = []
    for i, (near, far) in enumerate(chosen):
        if near and far:
            near, far = [distance(rows[i], rows[j]) for j in near], [distance(rows[i], rows[j]) for j in far]
            pull, push = soft_mean(near, [d / sigma for d in near]), soft_mean(far, [-d / sigma for d in far])
            terms.append(hinge(pull - push + margin))
    return sum(terms) / max(1, len(terms))


def everything(labels):
    return [(positives(labels, i), negatives(labels, i)) for i in range(len(labels))]


@pytest.mark.parametrize("detach_weights", [False, True])
@pytest.mark.parametrize("settings", [{}, {"margin": 0.0, "sigma": 0.1}, {"margin": 1.0, "sigma": 3.0}], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_it_equals_the_loops(seed, settings, detach_weights):
    embeddings, labels = small_batch(seed)
    expected = in_loops(embeddings.tolist(), everything(labels.tolist()), **settings)
    loss = HAP2S(detach_weights=detach_weights, **settings)
    assert loss(embeddings, labels).item() == pytest.approx(expected, rel=1e-10)
    kept = sum(len(near) + len(far) for near, far in everything(labels.tolist()) if near and far)
    assert loss.usage.counts()["num_tuples"] == kept


def test_a_pair_miner_decides_which_pairs_weigh():
    embeddings, labels = small_batch(4)
    kept = MultiSimilarity()(embeddings, labels)
    chosen: list[tuple[list[int], list[int]]] = [([], []) for _ in labels]
    for side, (rows, columns) in enumerate([kept[:2], kept[2:]]):
        for i, j in zip(rows.tolist(), columns.tolist(), strict=True):
            chosen[i][side].append(j)
    expected = in_loops(embeddings.tolist(), chosen)
    for loss, indices in [(HAP2S(), kept), (HAP2S(miner=MultiSimilarity()), None)]:
        assert loss(embeddings, labels, indices).item() == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(("sigma", "pull", "push"), [(1e-4, max, min), (1e7, "mean", "mean")])
def test_its_limits_are_batch_hard_and_the_mean_distances(sigma, pull, push):
    embeddings, labels = small_batch(5)
    rows, names = embeddings.tolist(), labels.tolist()

    def mean(values):
        return sum(values) / len(values)

    pull, push = (mean if rule == "mean" else rule for rule in (pull, push))
    terms = []
    for i, (near, far) in enumerate(everything(names)):
        if near:
            near, far = [distance(rows[i], rows[j]) for j in near], [distance(rows[i], rows[j]) for j in far]
            terms.append(hinge(pull(near) - push(far) + 0.2))
    assert HAP2S(sigma=sigma)(embeddings, labels).item() == pytest.approx(mean(terms), rel=1e-6)


def test_with_detached_weights_the_gradient_is_that_of_the_weighted_distances():
    embeddings, labels = small_batch(6)
    leaf = embeddings.clone().requires_grad_()
    HAP2S(margin=3.0, detach_weights=True)(leaf, labels).backward()
    constant = Pairs(embeddings, labels)
    # The lowest finite number rather than -inf: a row without any entry must not become NaN.
    lowest = torch.finfo(torch.float64).min
    pull = (constant.distance / 0.5).masked_fill(~constant.positive, lowest).softmax(1)
    push = (-constant.distance / 0.5).masked_fill(~constant.negative, lowest).softmax(1)
    is_kept = constant.positive.any(1, keepdim=True)  # the margin of 3 keeps every hinge open
    again = embeddings.clone().requires_grad_()
    (Pairs(again, labels).distance * (pull - push) * is_kept).sum().div(is_kept.sum()).backward()
    torch.testing.assert_close(leaf.grad, again.grad)
    attached = embeddings.clone().requires_grad_()
    HAP2S(margin=3.0)(attached, labels).backward()
    assert (attached.grad - leaf.grad).abs().max() > 1e-3


def test_detached_weights_give_the_gradient_of_the_soft_maximum():
    # sigma log sum exp(d / sigma) has the weights of HAP2S as its gradient: the robust reading of the loss.
    embeddings, labels = small_batch(7)
    gradients = []
    for detached in (True, False):
        leaf = embeddings.clone().requires_grad_()
        pairs = Pairs(leaf, labels)
        is_kept = pairs.positive.any(1)
        if detached:
            HAP2S(margin=3.0, sigma=0.3, detach_weights=True)(pairs).backward()
        else:
            far = (pairs.distance / 0.3).masked_fill(~pairs.positive, -torch.inf)[is_kept].logsumexp(1) * 0.3
            near = (-pairs.distance / 0.3).masked_fill(~pairs.negative, -torch.inf)[is_kept].logsumexp(1) * 0.3
            (far + near).mean().backward()
        gradients.append(leaf.grad)
    torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-12)


def test_one_positive_as_far_as_the_only_negative_costs_the_margin():
    embeddings, labels = at_angles(0, 50, -50), torch.tensor([0, 0, 1])
    loss = HAP2S(margin=0.3)
    # Anchor 0 is a tie; for anchor 1 the negative is twice the angle away, beyond the margin.
    assert loss(embeddings, labels).item() == pytest.approx(0.3 / 2, rel=1e-6)
    assert loss.usage.counts()["num_tuples"] == 4
    assert loss.usage.counts()["num_active"] == 2
