"""Data parallelism: gather the batches of all processes with gradients, and average gradients of loss parameters.

Every process gathers the embeddings of all (`gather_with_gradient`), computes the same loss of the joined batch, and
runs backward. The gradient of its own part is multiplied by the number of processes, so that the averaging of
DistributedDataParallel gives the backbone exactly the gradient of one process on the joined batch. Parameters of the
loss have that gradient on every process already: they are averaged, never summed.
Without an initialized process group every function here does nothing.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, distributed


def is_distributed() -> bool:
    """Whether this process belongs to a process group."""
    return distributed.is_available() and distributed.is_initialized()


def world_size() -> int:
    """The number of processes in the group; 1 without a group."""
    return distributed.get_world_size() if is_distributed() else 1


def rank() -> int:
    """The number of this process in the group; 0 without a group."""
    return distributed.get_rank() if is_distributed() else 0


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, part: Tensor, sizes: list[int]) -> Tensor:
        context.start = sum(sizes[: rank()])
        context.size = len(part)
        return _joined(part, sizes)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        own = gradient.narrow(0, context.start, context.size)
        return own * world_size(), None


def gather_with_gradient(part: Tensor) -> Tensor:
    """The parts of all processes concatenated along the first dimension, in the order of their ranks.

    Parts may differ in length and may be empty; every process must call this. The backward pass assumes that all
    processes compute the same function of the joined tensor: each takes its own slice of the gradient, times the
    number of processes, without communication.
    """
    if world_size() == 1:
        return part
    sizes = _sizes(len(part), part.device)
    if part.requires_grad and torch.is_grad_enabled():
        return _Gather.apply(part, sizes)
    return _joined(part.detach(), sizes)


def average_gradients(parameters: Iterable[Tensor]) -> None:
    """Average the gradients of replicated parameters (those of a loss) over all processes.

    They agree already up to rounding if every process had the joined batch. A missing gradient counts as zero, so that
    no process waits for another.
    """
    count = world_size()
    if count == 1:
        return
    for parameter in parameters:
        if parameter.requires_grad:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            distributed.all_reduce(parameter.grad)
            parameter.grad /= count


def _sizes(size: int, device: torch.device) -> list[int]:
    own = torch.tensor([size], dtype=torch.int64, device=device)
    sizes = [torch.empty_like(own) for _ in range(world_size())]
    distributed.all_gather(sizes, own)
    return [int(other) for other in sizes]


def _joined(part: Tensor, sizes: list[int]) -> Tensor:
    # Collectives need equal shapes: parts are padded to the longest.
    padded = part.new_zeros((max(sizes), *part.shape[1:]))
    padded[: len(part)] = part
    parts = [torch.empty_like(padded) for _ in sizes]
    distributed.all_gather(parts, padded)
    return torch.cat([other[:size] for other, size in zip(parts, sizes, strict=True)])
