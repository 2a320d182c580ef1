"""Slow helpers for the definitions of the papers, transcribed into plain Python loops."""

import math

import torch
from torch import Tensor

from unseen.core.randomness import torch_generator


def grad(leaf: Tensor) -> Tensor:
    """The gradient of a leaf, which has one."""
    assert leaf.grad is not None
    return leaf.grad


def small_batch(seed=0, sizes=(3, 2, 4, 1), width=5):
    """Overlapping classes of unequal size, one of a single sample, shuffled; float64."""
    generator = torch_generator(seed)
    labels = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    labels = labels[torch.randperm(len(labels), generator=generator)]
    centres = torch.randn(len(sizes), width, generator=generator, dtype=torch.float64)
    return centres[labels] + torch.randn(len(labels), width, generator=generator, dtype=torch.float64), labels


def at_angles(*degrees):
    """Points of the unit circle."""
    angles = torch.tensor(degrees, dtype=torch.float64).deg2rad()
    return torch.stack((angles.cos(), angles.sin()), 1)


def unit(vector):
    length = math.sqrt(sum(x * x for x in vector))
    return [x / length for x in vector]


def cosine(first, second):
    return sum(x * y for x, y in zip(unit(first), unit(second), strict=True))


def squared_distance(first, second):
    return max(0.0, 2 - 2 * cosine(first, second))


def distance(first, second):
    return math.sqrt(squared_distance(first, second) + 1e-8)


def positives(labels, i):
    return [j for j in range(len(labels)) if j != i and labels[j] == labels[i]]


def negatives(labels, i):
    return [j for j in range(len(labels)) if labels[j] != labels[i]]


def all_triplets(labels):
    return [(a, p, n) for a in range(len(labels)) for p in positives(labels, a) for n in negatives(labels, a)]


def as_indices(triplets):
    """Triplets of plain numbers as the three tensors of an indices_tuple."""
    return tuple(torch.tensor(column, dtype=torch.int64) for column in zip(*triplets, strict=True))


def hinge(x):
    return max(0.0, x)
