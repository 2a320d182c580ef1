"""Proxy NCA against loops and closed forms."""

import math

import pytest
import torch

from tests.losses.loops import at_angles, small_batch, squared_distance, unit
from unseen.losses import ProxyNCA


def in_loops(rows, labels, proxies, radius):
    terms = []
    for row, label in zip(rows, labels, strict=True):
        scaled = [radius * x for x in unit(row)]
        distances = []
        for proxy in proxies:
            other = [radius * x for x in unit(proxy)]
            distances.append(sum((x - y) ** 2 for x, y in zip(scaled, other, strict=True)))
        foreign = sum(math.exp(-d) for c, d in enumerate(distances) if c != label)
        terms.append(distances[label] + math.log(foreign))
    return sum(terms) / len(terms)


@pytest.mark.parametrize("radius", [3.0, 1.0, 0.2])
def test_it_equals_the_loops_over_all_proxies(radius):
    embeddings, labels = small_batch(1)
    loss = ProxyNCA(num_classes=6, embedding_size=5, radius=radius).double()
    expected = in_loops(embeddings.tolist(), labels.tolist(), loss.proxies.tolist(), radius)
    assert loss(embeddings, labels).item() == pytest.approx(expected, rel=1e-9)


def test_two_classes_give_the_difference_of_squared_distances():
    loss = ProxyNCA(num_classes=2, embedding_size=2).double()
    loss.proxies.data = 4 * at_angles(0, 70)
    embedding = at_angles(20)
    near, far = (squared_distance(embedding[0].tolist(), proxy) for proxy in loss.proxies.tolist())
    assert loss(2 * embedding, torch.tensor([0])).item() == pytest.approx(9 * (near - far))
    assert loss(2 * embedding, torch.tensor([1])).item() == pytest.approx(9 * (far - near))


def test_the_radius_scales_exponents_by_its_square():
    # With two classes the loss is linear in the exponents.
    embeddings, labels = at_angles(10, 80, 200), torch.tensor([0, 1, 0])
    one, three = (ProxyNCA(num_classes=2, embedding_size=2, radius=radius).double() for radius in (1.0, 3.0))
    torch.testing.assert_close(three(embeddings, labels), 9 * one(embeddings, labels))


def test_what_all_squared_distances_have_in_common_cancels():
    # A coordinate orthogonal to every proxy moves an embedding away from all of them alike, and scales the rest.
    loss = ProxyNCA(num_classes=3, embedding_size=3, radius=1.0).double()
    loss.proxies.data = torch.cat((at_angles(0, 100, 220), torch.zeros(3, 1, dtype=torch.float64)), 1)
    labels = torch.tensor([0, 1])
    lifted = torch.cat((at_angles(30, 80), torch.full((2, 1), 3.0**0.5, dtype=torch.float64)), 1)  # cosines halve
    half = ProxyNCA(num_classes=3, embedding_size=3, radius=0.5**0.5).double()
    half.proxies.data = loss.proxies.data.clone()
    flat = torch.cat((at_angles(30, 80), torch.zeros(2, 1, dtype=torch.float64)), 1)
    torch.testing.assert_close(loss(lifted, labels), half(flat, labels))


def test_a_foreign_proxy_pushes_by_its_share_of_the_sum():
    loss = ProxyNCA(num_classes=3, embedding_size=2, radius=1.0).double()
    loss.proxies.data = at_angles(0, 60, 150)
    embeddings = at_angles(20).requires_grad_()
    loss(embeddings, torch.tensor([0])).backward()
    weights = torch.softmax(2 * at_angles(20)[0] @ at_angles(60, 150).T, 0)
    pull = 2 * (weights @ at_angles(60, 150) - at_angles(0)[0])
    along = at_angles(20)[0]
    torch.testing.assert_close(embeddings.grad[0], pull - (pull @ along) * along)


def test_one_class_has_nothing_to_compare_with():
    loss = ProxyNCA(num_classes=1, embedding_size=2).double()
    embeddings = at_angles(0, 50).requires_grad_()
    value = loss(embeddings, torch.tensor([0, 0]))
    value.backward()
    assert value.item() == 0
    assert not embeddings.grad.any()
    assert loss.usage.is_empty


def test_proxies_start_as_normal_numbers_over_eight_and_learn_at_their_rate():
    loss = ProxyNCA(num_classes=50, embedding_size=64)
    assert loss.proxies.std().item() == pytest.approx(1 / 8, rel=0.05)
    assert loss.own_parameters() == [{"params": [loss.proxies], "lr": 5e-4, "weight_decay": 0.0}]
