"""Distance-weighted mining: the density, the cut-offs, and the frequencies they give."""

import math

import pytest
import torch

from tests.miners.frequencies import DRAWS, assert_frequencies, batch, drawn
from unseen.core.errors import ConfigError
from unseen.losses import Pairs
from unseen.miners import DistanceWeighted
from unseen.miners.distance import log_inverse_density


def log_weight(distance, width, lower=0.5):
    distance = max(distance, lower)
    return (2 - width) * math.log(distance) - (width - 3) / 2 * math.log(max(1 - distance**2 / 4, 1e-8))


def weights_in_loops(embeddings, labels, anchor, upper):
    unit = embeddings / embeddings.norm(dim=1, keepdim=True)
    distances = (unit - unit[anchor]).norm(dim=1).tolist()
    negative = [label != labels[anchor] for label in labels]
    allowed = [
        is_negative and (upper is None or d <= upper) for is_negative, d in zip(negative, distances, strict=True)
    ]
    if not any(allowed):
        return torch.tensor(negative).double()
    logs = [log_weight(d, embeddings.shape[1]) for d in distances]
    largest = max(x for x, is_allowed in zip(logs, allowed, strict=True) if is_allowed)
    weights = [math.exp(x - largest) if ok else 0.0 for x, ok in zip(logs, allowed, strict=True)]
    return torch.tensor(weights, dtype=torch.float64)


@pytest.mark.parametrize("upper", [1.4, None, 0.6])
@pytest.mark.parametrize("width", [1, 2, 3, 4, 128])
def test_weights_equal_the_loops_row_by_row(width, upper):
    embeddings, labels = batch(width=width)
    weights = DistanceWeighted(upper_cutoff=upper).weights(Pairs(embeddings, labels))
    for anchor in range(len(labels)):
        expected = weights_in_loops(embeddings, labels, anchor, upper)
        torch.testing.assert_close(weights[anchor], expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("upper", [1.4, None])
def test_frequencies_follow_the_weights(upper):
    embeddings, labels = batch(width=6)
    for anchor in (0, 6, 12):
        positive, negative = drawn(DistanceWeighted(upper_cutoff=upper, per_anchor=DRAWS), embeddings, labels, anchor)
        assert_frequencies(negative, weights_in_loops(embeddings, labels, anchor, upper))
        others = labels == labels[anchor]
        others[anchor] = False
        assert_frequencies(positive, others.double())


def test_negatives_all_beyond_the_upper_cutoff_are_drawn_uniformly():
    embeddings, labels = torch.tensor([[1.0, 0.0], [1.0, 0.1], [-1.0, 0.0], [-1.0, 0.5]]), torch.tensor([0, 0, 1, 2])
    _, negative = drawn(DistanceWeighted(per_anchor=DRAWS), embeddings, labels, 0)
    assert_frequencies(negative, torch.tensor([0.0, 0.0, 1.0, 1.0]))


def test_the_weight_falls_to_its_turning_point_and_rises_beyond():
    width = 64
    turning = (4 * (width - 2) / (2 * width - 5)) ** 0.5
    distance = torch.linspace(0.5, 1.99, 200, dtype=torch.float64)
    logs = log_inverse_density(1 - distance.square() / 2, width, 0.5)
    steps = logs.diff()
    assert (steps[distance[1:] < turning] < 0).all()
    assert (steps[distance[:-1] > turning] > 0).all()


def test_below_the_lower_cutoff_all_weigh_the_same():
    distance = torch.linspace(0, 0.5, 20, dtype=torch.float64)
    logs = log_inverse_density(1 - distance.square() / 2, 32, 0.5)
    torch.testing.assert_close(logs, logs[-1:].expand(20))


def test_in_three_dimensions_the_weight_is_one_over_the_distance():
    distance = torch.linspace(0.5, 1.9, 20, dtype=torch.float64)
    logs = log_inverse_density(1 - distance.square() / 2, 3, 0.5)
    torch.testing.assert_close((logs - logs[0]).exp(), 0.5 / distance)


def test_antipodes_in_many_dimensions_stay_finite():
    embeddings = torch.eye(512)[:4].repeat(2, 1) * torch.tensor([1.0] * 4 + [-1.0] * 4).unsqueeze(1)
    labels = torch.arange(8) // 2
    weights = DistanceWeighted(upper_cutoff=None).weights(Pairs(embeddings, labels))
    assert weights.isfinite().all()
    assert (weights.amax(1) == 1).all()


def test_cutoffs_that_cross_are_refused():
    with pytest.raises(ConfigError, match=r"upper_cutoff must be at least lower_cutoff \(0.5\); got 0.4"):
        DistanceWeighted(upper_cutoff=0.4)
