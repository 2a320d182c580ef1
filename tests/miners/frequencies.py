"""Draws of one anchor counted over many keys, and their chi-square distance from what they should be."""

import torch
from scipy.stats import chi2

from unseen.core.randomness import torch_generator

DRAWS = 4000
LIKELIHOOD = 1e-4
"""Keys are fixed, so these tests give one result for ever; a right miner had a chance of 1e-4 to fail when written."""


def batch(width=4, sizes=(4, 3, 5, 2), seed=0):
    """A batch of four classes."""
    labels = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    return torch.randn(len(labels), width, generator=torch_generator(seed), dtype=torch.float64), labels


def drawn(miner, embeddings, labels, anchor):
    """Positives and negatives of one anchor over many independent draws."""
    found = miner(embeddings, labels, key=1)
    is_anchor = found.anchor == anchor
    return found.positive[is_anchor], found.negative[is_anchor]


def assert_frequencies(columns, probabilities):
    """Refuse counts that a chi-square test finds unlikely, and any draw where none should be."""
    counts = torch.bincount(columns, minlength=len(probabilities)).double()
    assert counts[probabilities == 0].sum() == 0
    possible = probabilities > 0
    expected = probabilities[possible] / probabilities.sum() * len(columns)
    statistic = ((counts[possible] - expected).square() / expected).sum().item()
    assert statistic < chi2.isf(LIKELIHOOD, max(1, int(possible.sum()) - 1))
