"""SoftTriple against loops, closed forms and the limits of its settings."""

import math

import pytest
import torch

from tests.losses.loops import at_angles, cosine, grad, small_batch
from unseen.core.randomness import torch_generator
from unseen.losses import NormalizedSoftmax, SoftTriple


def in_loops(rows, labels, centers, scale, margin, gamma, tau):
    terms = []
    for row, label in zip(rows, labels, strict=True):
        logits = []
        for c, group in enumerate(centers):
            near = [cosine(row, center) for center in group]
            weights = [math.exp(s / gamma) for s in near]
            similarity = sum(w * s for w, s in zip(weights, near, strict=True)) / sum(weights)
            logits.append(scale * (similarity - (margin if c == label else 0)))
        terms.append(math.log(sum(math.exp(logit) for logit in logits)) - logits[label])
    spread, count = 0.0, len(centers[0])
    for group in centers:
        for k in range(count):
            for other in range(k + 1, count):
                spread += math.sqrt(2 + 1e-5 - 2 * cosine(group[k], group[other]))
    if count > 1:
        spread /= len(centers) * count * (count - 1)
    return sum(terms) / len(terms) + tau * spread


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize(
    ("scale", "margin", "gamma", "tau"), [(8.0, 0.01, 0.1, 0.2), (20.0, 0.0, 1.0, 0.0), (3.0, 0.4, 0.02, 2.0)]
)
def test_it_equals_the_loops_over_classes_and_centres(count, scale, margin, gamma, tau):
    embeddings, labels = small_batch(1)
    settings = {"scale": scale, "margin": margin, "gamma": gamma, "tau": tau}
    loss = SoftTriple(num_classes=6, embedding_size=5, centers_per_class=count, **settings).double()
    expected = in_loops(embeddings.tolist(), labels.tolist(), loss.proxies.tolist(), **settings)
    assert loss(embeddings, labels).item() == pytest.approx(expected, rel=1e-9)


def one_vector_a_class(vectors, temperature):
    softmax = NormalizedSoftmax(num_classes=len(vectors), embedding_size=vectors.shape[1], temperature=temperature)
    softmax.double().proxies.data = vectors
    return softmax


def test_one_centre_a_class_without_margin_is_the_normalised_softmax():
    embeddings, labels = small_batch(2)
    loss = SoftTriple(num_classes=4, embedding_size=5, centers_per_class=1, margin=0.0, tau=5.0).double()
    softmax = one_vector_a_class(loss.proxies.data[:, 0], 1 / 8)
    torch.testing.assert_close(loss(embeddings, labels), softmax(embeddings, labels), rtol=1e-12, atol=0)


def test_a_margin_with_two_classes_shifts_the_softplus():
    loss = SoftTriple(num_classes=2, embedding_size=2, centers_per_class=1, margin=0.3, scale=5.0).double()
    loss.proxies.data = at_angles(0, 90).unsqueeze(1)
    own, other = math.cos(math.radians(20)), math.sin(math.radians(20))
    expected = math.log1p(math.exp(5 * (other - own + 0.3)))
    assert loss(at_angles(20), torch.tensor([0])).item() == pytest.approx(expected)


def test_a_small_gamma_takes_the_nearest_centre_and_a_large_one_the_mean():
    embeddings, labels = small_batch(3)
    unit = torch.nn.functional.normalize(embeddings)
    for gamma, reduce in [(1e-4, lambda s: s.amax(2)), (1e7, lambda s: s.mean(2))]:
        loss = SoftTriple(num_classes=4, embedding_size=5, centers_per_class=3, gamma=gamma, tau=0.0).double()
        cosines = torch.einsum("nd,ckd->nck", unit, torch.nn.functional.normalize(loss.proxies.data, dim=2))
        logits = 8 * (reduce(cosines) - 0.01 * torch.nn.functional.one_hot(labels, 4))
        torch.testing.assert_close(loss(embeddings, labels).data, torch.nn.functional.cross_entropy(logits, labels))


def test_the_order_of_the_centres_of_a_class_does_not_matter():
    embeddings, labels = small_batch(4)
    loss = SoftTriple(num_classes=4, embedding_size=5, centers_per_class=4).double()
    value = loss(embeddings, labels)
    loss.proxies.data = loss.proxies.data[:, torch.randperm(4, generator=torch_generator(1))]
    torch.testing.assert_close(loss(embeddings, labels), value)


def test_equal_centres_cost_the_root_of_the_epsilon_and_have_a_finite_gradient():
    loss = SoftTriple(num_classes=1, embedding_size=2, centers_per_class=3, tau=1.0).double()
    loss.proxies.data = at_angles(40, 40, 40).unsqueeze(0)
    value = loss(at_angles(0), torch.tensor([0]))
    value.backward()
    assert value.item() == pytest.approx(math.sqrt(1e-5) / 2)
    assert grad(loss.proxies).isfinite().all()


def test_the_second_term_is_half_the_mean_distance_between_centres():
    loss = SoftTriple(num_classes=1, embedding_size=2, centers_per_class=2, tau=1.0).double()
    loss.proxies.data = 3 * at_angles(0, 90).unsqueeze(0)
    assert loss(at_angles(0), torch.tensor([0])).item() == pytest.approx(math.sqrt(2 + 1e-5) / 2)


def test_under_autocast_the_centres_are_compared_in_float32():
    embeddings, labels = (part[:6] for part in small_batch(5))
    loss = SoftTriple(num_classes=4, embedding_size=5, centers_per_class=3, tau=10.0)
    loss(embeddings.float(), labels).backward()
    expected = grad(loss.proxies).clone()
    loss.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        loss(embeddings.float(), labels).backward()
    torch.testing.assert_close(loss.proxies.grad, expected)


def test_centres_come_from_the_seed_and_are_declared_with_their_rate():
    first, other = (SoftTriple(num_classes=50, embedding_size=64, centers_per_class=3, seed=seed) for seed in (1, 2))
    assert first.proxies.shape == (50, 3, 64)
    assert not torch.equal(first.proxies, other.proxies)
    assert first.proxies.abs().max() <= 1 / 8
    assert first.own_parameters() == [{"params": [first.proxies], "lr": 1e-5, "weight_decay": 0.0}]
