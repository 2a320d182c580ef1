"""Circle against loops, closed forms, its gradient with held weights, and pytorch-metric-learning."""

import math
import warnings

import pytest
import torch

from tests.losses.loops import as_indices, at_angles, cosine, negatives, positives, small_batch
from unseen.losses import Circle
from unseen.miners import MultiSimilarity


def in_loops(rows, labels, margin=0.4, scale=80.0):
    values = []
    for i in range(len(rows)):
        pull = [cosine(rows[i], rows[k]) for k in positives(labels, i)]
        push = [cosine(rows[i], rows[k]) for k in negatives(labels, i)]
        if pull and push:
            near = sum(math.exp(-scale * max(0, 1 + margin - s) * (s - (1 - margin))) for s in pull)
            far = sum(math.exp(scale * max(0, s + margin) * (s - margin)) for s in push)
            values.append(math.log(1 + near * far))
    return sum(values) / max(1, len(values))


def with_held_weights(at, labels, margin=0.4, scale=80.0):
    """The loss as a function of embeddings whose pair weights are fixed where the embeddings are now."""
    classes = labels.tolist()
    rows = at.tolist()
    weights: dict[tuple[int, int], float] = {}
    for i in range(len(rows)):
        weights |= {(i, k): max(0, 1 + margin - cosine(rows[i], rows[k])) for k in positives(classes, i)}
        weights |= {(i, k): max(0, cosine(rows[i], rows[k]) + margin) for k in negatives(classes, i)}

    def value_of(embeddings):
        unit = torch.nn.functional.normalize(embeddings)
        values = []
        for i in range(len(rows)):
            pull = [-scale * weights[i, k] * (unit[i] @ unit[k] - 1 + margin) for k in positives(classes, i)]
            push = [scale * weights[i, k] * (unit[i] @ unit[k] - margin) for k in negatives(classes, i)]
            if pull and push:
                total = torch.logsumexp(torch.stack(pull), 0) + torch.logsumexp(torch.stack(push), 0)
                values.append(torch.nn.functional.softplus(total, threshold=50))
        return torch.stack(values).mean()

    return value_of


@pytest.mark.parametrize("settings", [{}, {"margin": 0.25, "scale": 128.0}, {"margin": 0.0, "scale": 3.0}], ids=str)
def test_it_equals_the_loops(settings):
    for seed in range(3):
        embeddings, labels = small_batch(seed)
        value = Circle(**settings)(embeddings, labels)
        assert value.item() == pytest.approx(in_loops(embeddings.tolist(), labels.tolist(), **settings), rel=1e-9)


@pytest.mark.parametrize("settings", [{}, {"margin": 0.1, "scale": 5.0}], ids=str)
def test_its_gradient_is_that_of_the_value_with_held_weights(settings):
    embeddings, labels = small_batch(5)
    leaf, other = embeddings.clone().requires_grad_(), embeddings.clone().requires_grad_()
    value = Circle(**settings)(leaf, labels)
    value.backward()
    held = with_held_weights(embeddings, labels, **settings)
    expected = held(other)
    expected.backward()
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(leaf.grad, other.grad)
    # The gradient by differences along a random direction, so that autograd is not compared with itself alone.
    direction = torch.randn(embeddings.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    slope = (held(embeddings + 1e-6 * direction) - held(embeddings - 1e-6 * direction)) / 2e-6
    assert (leaf.grad * direction).sum().item() == pytest.approx(slope.item(), rel=1e-5)


def test_one_pair_of_each_kind_is_a_softplus_on_a_circle():
    # Exponents complete the square: (s_n)^2 + (1 - s_p)^2 - 2 m^2, a circle around s_p = 1, s_n = 0.
    embeddings, labels = at_angles(0, 30, 70), torch.tensor([0, 0, 1])
    near, far = (math.cos(math.radians(angle)) for angle in (30, 70))
    expected = math.log1p(math.exp(80 * (far**2 + (1 - near) ** 2 - 2 * 0.4**2)))
    assert Circle()(embeddings, labels, as_indices([(0, 1, 2)])).item() == pytest.approx(expected)


def test_pairs_beyond_their_optimum_are_not_pushed_further():
    # A negative below -m has weight 0, and its exponent is 0 whatever its similarity.
    labels, indices = torch.tensor([0, 0, 1]), as_indices([(0, 1, 2)])
    embeddings = at_angles(0, 60, 130).requires_grad_()
    Circle()(embeddings, labels, indices).backward()
    assert not embeddings.grad[2].any()
    assert embeddings.grad[1].any()


def test_hard_batches_overflow_nothing():
    embeddings, labels = at_angles(0, 180, 0.1, 180.1), torch.tensor([0, 0, 1, 1])
    leaf = embeddings.float().requires_grad_()
    value = Circle(scale=1e4)(leaf, labels)
    value.backward()
    assert value.isfinite()
    assert value > 1e4
    assert leaf.grad.isfinite().all()


def test_a_batch_without_negatives_costs_a_connected_zero():
    embeddings = at_angles(0, 10, 20).requires_grad_()
    loss = Circle()
    value = loss(embeddings, torch.zeros(3, dtype=torch.int64))
    value.backward()
    assert value.item() == 0
    assert not embeddings.grad.any()
    assert loss.usage.is_empty


def test_it_agrees_with_pytorch_metric_learning_in_value_and_gradient():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        losses = pytest.importorskip("pytorch_metric_learning.losses")
    embeddings, labels = small_batch(3)
    for margin, scale in ((0.4, 80.0), (0.25, 5.0)):
        for indices in (None, MultiSimilarity()(embeddings, labels)):
            found = []
            for loss in (Circle(margin=margin, scale=scale), losses.CircleLoss(m=margin, gamma=scale)):
                leaf = embeddings.clone().requires_grad_()
                value = loss(leaf, labels, indices)
                value.backward()
                found.append((value.detach(), leaf.grad))
            # 1e-7: their softplus is linear beyond 20, which leaves out exp(-20) = 2e-9.
            torch.testing.assert_close(*found, rtol=1e-7, atol=1e-7)
