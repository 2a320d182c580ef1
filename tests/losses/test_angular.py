"""Angular against loops over the positives it drew, its closed forms at 0 and 45 degrees, and its two parts."""

import math

import pytest
import torch

from tests.losses.loops import as_indices, at_angles, cosine, negatives, small_batch
from tests.losses.test_n_pair import drawn_positives
from tests.losses.test_n_pair import in_loops as n_pair_in_loops
from unseen.core.errors import ConfigError
from unseen.losses import Angular, NPair


def in_loops(rows, labels, positive_of, degrees):
    steepness = math.tan(math.radians(degrees)) ** 2
    terms = []
    for a, p in positive_of.items():
        total = 0.0
        for n in negatives(labels, a):
            both = cosine(rows[a], rows[n]) + cosine(rows[p], rows[n])
            total += math.exp(4 * steepness * both - 2 * (1 + steepness) * cosine(rows[a], rows[p]))
        terms.append(math.log(1 + total))
    return sum(terms) / len(terms)


@pytest.mark.parametrize("weight", [0.0, 2.0])
@pytest.mark.parametrize("degrees", [0.0, 30.0, 45.0, 60.0])
def test_it_equals_the_loops_over_the_positives_it_drew(degrees, weight):
    for key in range(3):
        embeddings, labels = small_batch(key)
        rows, classes = embeddings.tolist(), labels.tolist()
        positive_of = drawn_positives(embeddings, labels, key)
        expected = n_pair_in_loops(rows, classes, positive_of) + weight * in_loops(rows, classes, positive_of, degrees)
        loss = Angular(angle_degrees=degrees, angular_weight=weight)
        assert loss(embeddings, labels, key=key).item() == pytest.approx(expected, rel=1e-9)


def test_the_exponents_of_the_raw_part_can_be_clamped():
    embeddings, labels = small_batch(1)
    rows, classes = 5 * embeddings, labels.tolist()
    positive_of = drawn_positives(rows, labels, 1)
    expected = n_pair_in_loops(rows.tolist(), classes, positive_of, limit=50.0)
    assert expected < 0.99 * n_pair_in_loops(rows.tolist(), classes, positive_of)
    expected += 2 * in_loops(rows.tolist(), classes, positive_of, 45.0)
    assert Angular(exponent_limit=50.0)(rows, labels, key=1).item() == pytest.approx(expected, rel=1e-9)


def test_at_0_degrees_only_the_positive_counts():
    labels = torch.tensor([0, 0, 1, 2])
    indices = as_indices([(0, 1, 2), (0, 1, 3)])
    near = math.cos(math.radians(40))
    for first, second in [(90, 120), (10, 300)]:
        embeddings = at_angles(0, 40, first, second)
        part = Angular(angle_degrees=0.0, angular_weight=1.0)(embeddings, labels, indices)
        part = part - NPair()(embeddings, labels, indices)
        assert part.item() == pytest.approx(math.log(1 + 2 * math.exp(-2 * near)))


def test_at_45_degrees_the_exponent_is_four_times_the_difference():
    embeddings, labels, indices = at_angles(0, 40, 100), torch.tensor([0, 0, 1]), as_indices([(0, 1, 2)])
    near, far, farther = (math.cos(math.radians(angle)) for angle in (40, 60, 100))
    both = Angular(angular_weight=1.0)(embeddings, labels, indices)
    part = both - NPair()(embeddings, labels, indices)
    assert part.item() == pytest.approx(math.log(1 + math.exp(4 * (farther + far) - 4 * near)))


def test_the_angular_part_does_not_see_lengths_and_the_raw_part_does():
    embeddings, labels = small_batch(2)
    scaled = embeddings * torch.arange(1, len(labels) + 1, dtype=torch.float64).unsqueeze(1)
    parts = []
    for rows in (embeddings, scaled):
        parts.append(Angular(angular_weight=1.0)(rows, labels, key=7) - NPair()(rows, labels, key=7))
    torch.testing.assert_close(*parts)
    assert not torch.isclose(Angular()(scaled, labels, key=7), Angular()(embeddings, labels, key=7))


def test_a_reference_set_gives_the_value_of_the_joined_batch():
    embeddings, labels = small_batch(3)
    anchors = torch.arange(4)
    triplets = [
        (a, p, n)
        for a, p in drawn_positives(embeddings, labels, 0).items()
        if a < 4
        for n in negatives(labels.tolist(), a)
    ]
    leaf, other = embeddings.clone().requires_grad_(), embeddings.clone().requires_grad_()
    joined = Angular(nu=0.0)(leaf, labels, as_indices(triplets))
    joined.backward()
    apart = Angular(nu=0.0)(other[anchors], labels[anchors], as_indices(triplets), other, labels)
    apart.backward()
    torch.testing.assert_close(apart, joined)
    torch.testing.assert_close(other.grad, leaf.grad)


@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_lower_precision_agrees_with_float64_for_the_same_key(name):
    dtype = getattr(torch, name)
    embeddings, labels = small_batch(4)
    rounded = embeddings.to(dtype).requires_grad_()
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
        value = Angular()(rounded, labels, key=5)
    value.backward()
    exact = rounded.detach().double().requires_grad_()
    expected = Angular()(exact, labels, key=5)
    expected.backward()
    torch.testing.assert_close(value.double(), expected, rtol=1e-5, atol=1e-6)
    # The gradients are rounded to the dtype of the embeddings: 2^-8 for bfloat16.
    tolerance = 2**-7 if dtype == torch.bfloat16 else 1e-4
    torch.testing.assert_close(rounded.grad.double(), exact.grad, rtol=tolerance, atol=1e-4)


def test_a_steep_angle_stays_finite():
    embeddings, labels = small_batch(5)
    embeddings = embeddings.float().requires_grad_()
    value = Angular(angle_degrees=89.0)(embeddings, labels, key=1)
    value.backward()
    assert value.isfinite()
    assert embeddings.grad.isfinite().all()
    with pytest.raises(ConfigError, match="angle_degrees must be a number from 0 to 89"):
        Angular(angle_degrees=90.0)
