"""Comparison of a building block with the same formula in ordinary torch operations, in float64."""

from collections.abc import Callable

import torch
from torch import Tensor

from unseen.core.randomness import torch_generator

TOLERANCE = 1e-10


def random_matrix(seed: int, *shape: int) -> Tensor:
    """Uniform numbers in [0, 1)."""
    return torch.rand(shape, generator=torch_generator(seed), dtype=torch.float64)


def random_mask(seed: int, *shape: int, density: float = 0.4) -> Tensor:
    """A random mask whose second row is empty and whose third is full."""
    mask = random_matrix(seed, *shape) < density
    mask[1], mask[2] = False, True
    return mask


def assert_same_as_autograd(
    block: Callable[..., Tensor], plain: Callable[..., Tensor], *inputs: Tensor, seed: int = 99
) -> None:
    """Values and gradients, for a random weighting of the outputs, agree to 1e-10."""
    results = []
    for function in (block, plain):
        leaves = [value.clone().requires_grad_() for value in inputs]
        output = function(*leaves)
        weights = torch.randn(output.shape, generator=torch_generator(seed), dtype=torch.float64)
        gradients = torch.autograd.grad((output * weights).sum(), leaves, allow_unused=True)
        zero = [torch.zeros_like(leaf) if grad is None else grad for grad, leaf in zip(gradients, leaves, strict=True)]
        results.append([output.detach(), *zero])
    for found, expected in zip(*results, strict=True):
        assert found.isfinite().all()
        torch.testing.assert_close(found, expected, rtol=TOLERANCE, atol=TOLERANCE)
