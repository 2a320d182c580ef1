"""Binomial deviance against loops, its value and slope at the threshold, and its convexity."""

import math
from typing import Any

import pytest
import torch

from tests.losses.loops import at_angles, cosine, small_batch
from unseen.losses import BinomialPair, Pairs


def deviance(similarity, is_positive, positive_sharpness=2.0, negative_sharpness=40.0, threshold=0.5):
    sharpness = positive_sharpness if is_positive else negative_sharpness
    sign = -1 if is_positive else 1
    return 2 / sharpness * math.log1p(math.exp(sign * sharpness * (similarity - threshold)))


def test_it_equals_the_mean_of_the_loops():
    embeddings, labels = small_batch(1)
    rows, names = embeddings.tolist(), labels.tolist()
    settings: dict[str, Any] = {"positive_sharpness": 3.0, "negative_sharpness": 50.0, "threshold": 0.4}
    pairs = [(i, j) for i in range(len(rows)) for j in range(len(rows)) if i != j]
    losses = [deviance(cosine(rows[i], rows[j]), names[i] == names[j], **settings) for i, j in pairs]
    assert BinomialPair(**settings)(embeddings, labels).item() == pytest.approx(sum(losses) / len(losses), rel=1e-12)
    terms = BinomialPair(**settings).terms(Pairs(embeddings, labels))
    for (i, j), expected in zip(pairs, losses, strict=True):
        assert terms.values[i, j].item() == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(("labels", "sharpness", "slope"), [([0, 0], 2, -1), ([0, 1], 40, 1)])
def test_at_the_threshold_the_value_is_2_log_2_by_sharpness_and_the_slope_is_one(labels, sharpness, slope):
    pairs = Pairs(at_angles(0, 60).requires_grad_(), torch.tensor(labels))
    loss = BinomialPair()
    terms = loss.terms(pairs)
    assert terms.values[0, 1].item() == pytest.approx(2 * math.log(2) / sharpness)
    assert terms.neutral is not None
    assert terms.neutral[labels[1]] == pytest.approx(terms.values[0, 1].item())
    (found,) = torch.autograd.grad(terms.values[0, 1], pairs.similarity)
    assert found[0, 1].item() == pytest.approx(slope)


@pytest.mark.parametrize("labels", [[0, 0], [0, 1]])
def test_it_is_above_zero_and_convex_in_the_similarity(labels):
    similarities = torch.linspace(-1, 1, 81, dtype=torch.float64)
    loss = BinomialPair()
    values = [
        loss.terms(Pairs(at_angles(0, degrees), torch.tensor(labels))).values[0, 1].item()
        for degrees in similarities.acos().rad2deg().tolist()
    ]
    assert min(values) > 0
    for before, here, after in zip(values, values[1:], values[2:], strict=False):
        assert before + after >= 2 * here - 1e-9
