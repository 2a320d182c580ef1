"""Balanced top-k against sorted losses, also where one kind of pair is short."""

import pytest
import torch

from unseen.core.errors import ConfigError
from unseen.core.randomness import torch_generator
from unseen.losses import PairTerms
from unseen.robust import TopKBalanced


def row(positive, negative):
    values = torch.tensor([[*positive, *negative]], dtype=torch.float64)
    is_positive = torch.arange(values.shape[1]).view(1, -1) < len(positive)
    return PairTerms(values, is_positive, ~is_positive)


@pytest.mark.parametrize("k", [2, 4, 6, 8, 20])
@pytest.mark.parametrize(("positives", "negatives"), [(3, 12), (12, 3), (6, 6), (0, 5), (5, 0)])
def test_it_is_the_mean_of_equally_many_hardest_of_both_kinds(positives, negatives, k):
    losses = torch.rand(positives + negatives, generator=torch_generator(k), dtype=torch.float64).tolist()
    positive, negative = losses[:positives], losses[positives:]
    half = min(k // 2, positives, negatives)
    expected = (sum(sorted(positive)[::-1][:half]) + sum(sorted(negative)[::-1][:half])) / max(1, 2 * half)
    found = TopKBalanced(k).worst_case(row(positive, negative))
    assert found.value.item() == pytest.approx(expected)
    assert (found.weights[0, :positives] > 0).sum() == (found.weights[0, positives:] > 0).sum() == half


def test_an_odd_k_is_refused():
    with pytest.raises(ConfigError, match="k must be even"):
        TopKBalanced(7)
