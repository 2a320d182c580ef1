"""Proxy anchor against loops and closed forms."""

import math

import pytest
import torch

from tests.losses.loops import at_angles, cosine, grad, small_batch
from unseen.losses import ProxyAnchor


def in_loops(rows, labels, proxies, alpha, margin):
    pulls, pushes = [], []
    for label, proxy in enumerate(proxies):
        own = [cosine(row, proxy) for row, other in zip(rows, labels, strict=True) if other == label]
        foreign = [cosine(row, proxy) for row, other in zip(rows, labels, strict=True) if other != label]
        if own:
            pulls.append(math.log(1 + sum(math.exp(-alpha * (c - margin)) for c in own)))
        pushes.append(math.log(1 + sum(math.exp(alpha * (c + margin)) for c in foreign)))
    return sum(pulls) / len(pulls) + sum(pushes) / len(pushes)


@pytest.mark.parametrize(("alpha", "margin"), [(32.0, 0.1), (4.0, 0.0), (4.0, 0.5)])
def test_it_equals_the_loops_over_proxies_of_present_and_absent_classes(alpha, margin):
    embeddings, labels = small_batch(1)
    loss = ProxyAnchor(num_classes=6, embedding_size=5, alpha=alpha, margin=margin).double()
    expected = in_loops(embeddings.tolist(), labels.tolist(), loss.proxies.tolist(), alpha, margin)
    assert loss(embeddings, labels).item() == pytest.approx(expected, rel=1e-9)


def test_one_sample_gives_a_softplus_for_its_own_proxy_and_one_for_each_other():
    loss = ProxyAnchor(num_classes=2, embedding_size=2, alpha=3.0).double()
    loss.proxies.data = 5 * at_angles(0, 90)
    c, s = (f(math.radians(30)) for f in (math.cos, math.sin))
    expected = math.log1p(math.exp(-3 * (c - 0.1))) + math.log1p(math.exp(3 * (s + 0.1))) / 2
    assert loss(at_angles(30), torch.tensor([0])).item() == pytest.approx(expected)


def test_a_proxy_without_samples_is_only_pushed():
    loss = ProxyAnchor(num_classes=3, embedding_size=2, alpha=3.0).double()
    loss.proxies.data = at_angles(0, 90, 45)
    loss(at_angles(0, 90), torch.tensor([0, 1])).backward()
    leaf = loss.proxies.detach().clone().requires_grad_()
    cosines = torch.nn.functional.normalize(leaf)[2] @ at_angles(0, 90).T
    ((1 + (3 * (cosines + 0.1)).exp().sum()).log() / 3).backward()
    torch.testing.assert_close(grad(loss.proxies)[2], grad(leaf)[2])


def test_the_hardest_positive_is_pulled_the_most():
    loss = ProxyAnchor(num_classes=1, embedding_size=2).double()
    loss.proxies.data = at_angles(0)
    embeddings = at_angles(20, 40, 60).requires_grad_()
    loss(embeddings, torch.tensor([0, 0, 0])).backward()
    weights = torch.softmax(-32 * at_angles(20, 40, 60)[:, 0], 0)
    strength = embeddings.grad.norm(dim=1) / torch.tensor([20.0, 40.0, 60.0]).double().deg2rad().sin()
    torch.testing.assert_close(strength / strength.sum(), weights)


def test_proxies_start_as_normal_numbers_over_eight_and_learn_at_their_rate():
    loss = ProxyAnchor(num_classes=50, embedding_size=64)
    assert loss.proxies.std().item() == pytest.approx(1 / 8, rel=0.05)
    assert loss.own_parameters() == [{"params": [loss.proxies], "lr": 0.02, "weight_decay": 0.0}]
    assert ProxyAnchor(num_classes=2, embedding_size=2, proxy_lr=None).own_parameters()[0]["lr"] is None
