"""ArcFace against loops and closed forms."""

import itertools
import math

import pytest
import torch

from tests.losses.loops import at_angles, cosine, grad, small_batch
from unseen.losses import ArcFace, NormalizedSoftmax


def in_loops(rows, labels, proxies, margin, scale, reference_clip=False):
    lowest = 1e-10 if reference_clip else -1 + 1e-7
    terms = []
    for row, label in zip(rows, labels, strict=True):
        angles = [math.acos(min(max(cosine(row, proxy), lowest), 1 - 1e-7)) for proxy in proxies]
        logits = [scale * math.cos(angle) for angle in angles]
        if angles[label] <= math.pi - margin:
            logits[label] = scale * math.cos(angles[label] + margin)
        else:
            logits[label] = scale * (math.cos(angles[label]) - margin * math.sin(margin))
        terms.append(math.log(sum(math.exp(logit) for logit in logits)) - logits[label])
    return sum(terms) / len(terms)


@pytest.mark.parametrize("reference_clip", [False, True])
@pytest.mark.parametrize(("margin", "scale"), [(0.5, 16.0), (0.0, 4.0), (1.5, 2.0), (3.0, 2.0)])
def test_it_equals_the_loops_over_all_classes(margin, scale, reference_clip):
    embeddings, labels = small_batch(1)
    loss = ArcFace(
        num_classes=6, embedding_size=5, margin_radians=margin, scale=scale, reference_clip=reference_clip
    ).double()
    expected = in_loops(embeddings.tolist(), labels.tolist(), loss.proxies.tolist(), margin, scale, reference_clip)
    assert loss(embeddings, labels).item() == pytest.approx(expected, rel=1e-9)


def test_without_margin_it_is_the_normalised_softmax():
    embeddings, labels = small_batch(2)
    loss = ArcFace(num_classes=4, embedding_size=5, margin_radians=0.0, scale=20.0).double()
    softmax = NormalizedSoftmax(num_classes=4, embedding_size=5, temperature=0.05).double()
    torch.testing.assert_close(loss(embeddings, labels), softmax(embeddings, labels), rtol=1e-12, atol=0)


def test_two_classes_give_the_softplus_of_the_widened_angle():
    loss = ArcFace(num_classes=2, embedding_size=2, margin_radians=0.3, scale=5.0).double()
    loss.proxies.data = 7 * at_angles(0, 90)
    widened = math.cos(math.radians(20) + 0.3)
    expected = math.log1p(math.exp(5 * (math.sin(math.radians(20)) - widened)))
    assert loss(3 * at_angles(20), torch.tensor([0])).item() == pytest.approx(expected)


@pytest.mark.parametrize("angle", [0.5, 40.0, 100.0])
def test_a_wider_margin_costs_strictly_more_up_to_the_opposite_pole(angle):
    margins = torch.linspace(0, math.pi - math.radians(angle), 12)[:-1].tolist()
    values = []
    for margin in margins:
        loss = ArcFace(num_classes=3, embedding_size=2, margin_radians=margin).double()
        loss.proxies.data = at_angles(0, 120, 240)
        values.append(loss(at_angles(angle), torch.tensor([0])).item())
    assert all(low < high for low, high in itertools.pairwise(values))


def test_the_own_logit_falls_over_the_whole_half_circle():
    loss = ArcFace(num_classes=2, embedding_size=3, margin_radians=0.5).double()
    loss.proxies.data = torch.tensor([[1.0, 0, 0], [0, 0, 1]], dtype=torch.float64)  # the other class at 90 degrees
    values = []
    for degrees in range(1, 180):
        embedding = torch.cat((at_angles(degrees), torch.zeros(1, 1, dtype=torch.float64)), 1).requires_grad_()
        value = loss(embedding, torch.tensor([0]))
        value.backward()
        values.append(value.item())
        turned = at_angles(degrees + 90)[0]  # the direction in which the angle grows
        assert grad(embedding)[0, :2] @ turned > 0
    assert all(low < high for low, high in itertools.pairwise(values))


def test_one_class_costs_nothing():
    loss = ArcFace(num_classes=1, embedding_size=2)
    assert loss(at_angles(0, 50).float(), torch.tensor([0, 0])).item() == 0


def test_the_reference_clip_leaves_angles_beyond_ninety_degrees_alone():
    for reference_clip in (False, True):
        loss = ArcFace(num_classes=2, embedding_size=2, reference_clip=reference_clip).double()
        loss.proxies.data = at_angles(0, 45)
        embeddings = at_angles(170).requires_grad_()
        loss(embeddings, torch.tensor([0])).backward()
        assert embeddings.grad.any().item() is not reference_clip


def test_an_embedding_on_its_class_vector_has_a_finite_gradient():
    for dtype in (torch.float32, torch.float64):
        loss = ArcFace(num_classes=2, embedding_size=2).to(dtype)
        loss.proxies.data = at_angles(0, 180).to(dtype)
        embeddings = at_angles(0, 180, 0).to(dtype).requires_grad_()
        loss(embeddings, torch.tensor([0, 0, 1])).backward()
        assert embeddings.grad.isfinite().all()
        assert grad(loss.proxies).isfinite().all()


def test_class_vectors_are_declared_with_their_rate():
    loss = ArcFace(num_classes=50, embedding_size=64)
    assert loss.proxies.abs().max() <= 1 / 8
    assert loss.own_parameters() == [{"params": [loss.proxies], "lr": 5e-4, "weight_decay": 0.0}]
