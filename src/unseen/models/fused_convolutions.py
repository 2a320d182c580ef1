"""Faster convolutions in training on a CPU: the same function of the same parameters, rounded differently.

Batch norm with frozen statistics is folded into the convolution before it, so that its two passes over the activations
and their gradients disappear. The weight gradient of depthwise kernels larger than 3 x 3, for which the library has no
fast loop, is a compiled loop of ours.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from unseen.core.machine.compiled import IS_COMPILED
from unseen.models.backbone import channels_last
from unseen.models.embedder import Embedder, device_of

_LARGEST_FAST_KERNEL = 3


class _BatchNorm(NamedTuple):
    """The tensors of a batch norm with frozen statistics."""

    mean: Tensor
    variance: Tensor
    weight: Tensor | None
    bias: Tensor | None
    eps: float

    def fold(self, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return weight and bias of the convolution that computes what a convolution and then this computes."""
        scale = torch.rsqrt(self.variance + self.eps)
        if self.weight is not None:
            scale = scale * self.weight
        shift = -self.mean if bias is None else bias - self.mean
        shift = shift * scale if self.bias is None else torch.addcmul(self.bias, shift, scale)
        return weight * scale[:, None, None, None], shift


def fused_convolutions(model: Embedder, example: Tensor) -> AbstractContextManager[object]:
    """Return a context in which the forward pass of a model in training is faster; it can be entered again and again.

    What can be folded is found by a pass of `example` through the backbone. The context does nothing on other devices
    than a CPU, or for a network that has nothing to gain.
    """
    if device_of(model).type != "cpu":
        return nullcontext()
    recording = _Recording()
    was_training = model.training
    model.eval()
    with torch.no_grad(), recording:
        model.backbone(example)
    model.train(was_training)
    folded = recording.batch_norms() if model.freezes_batch_norm else {}
    return _Fused(folded) if folded or recording.has_slow_kernel else nullcontext()


class _Recording(TorchFunctionMode):
    """Notes which convolution's output is used by a batch norm and by nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.has_slow_kernel = False
        self._weights: dict[int, Tensor] = {}  # weight of the convolution by the identity of its output
        self._users: dict[int, list[_BatchNorm | None]] = {}
        self._alive: list[Tensor] = []  # keeps outputs, so that an identity is not given twice
        self._calls: dict[Tensor, int] = {}

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        keywords = dict(kwargs or {})
        result = func(*args, **keywords)
        if result is None or any(isinstance(leaf, Tensor) for leaf in tree_leaves(result)):  # else it asks for a shape
            norm = _batch_norm(*args, **keywords) if func is F.batch_norm else None
            for leaf in tree_leaves((args, keywords)):
                if id(leaf) in self._weights:
                    self._users[id(leaf)].append(norm)
        if func is torch.conv2d:
            call = _Convolution(*args, **keywords)
            self.has_slow_kernel |= call.has_slow_kernel
            self._weights[id(result)], self._users[id(result)] = call.weight, []
            self._calls[call.weight] = self._calls.get(call.weight, 0) + 1
            self._alive.append(result)
        return result

    def batch_norms(self) -> dict[Tensor, _BatchNorm]:
        """Return the batch norms to fold, by the weight of their convolution."""
        found: dict[Tensor, _BatchNorm] = {}
        for output, users in self._users.items():
            weight, norm = self._weights[output], users[0] if users else None
            if len(users) == 1 and norm is not None and isinstance(weight, nn.Parameter) and self._calls[weight] == 1:
                found[weight] = norm
        return found


class _Fused(TorchFunctionMode):
    """Folds batch norms into the convolutions before them, and replaces slow convolutions."""

    def __init__(self, batch_norms: Mapping[Tensor, _BatchNorm]) -> None:
        super().__init__()
        self._batch_norms = batch_norms
        self._pending: dict[int, Tensor] = {}  # outputs by identity that wait for their batch norm

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        keywords = dict(kwargs or {})
        if func is torch.conv2d:
            call = _Convolution(*args, **keywords)
            norm = self._batch_norms.get(call.weight)
            if norm is not None:
                weight, bias = norm.fold(call.weight, call.bias)
                call = call._replace(weight=weight, bias=bias)
            result = call.run()
            if norm is not None:
                self._pending[id(result)] = result
            return result
        if func is F.batch_norm:
            inputs = args[0] if args else keywords["input"]
            if id(inputs) in self._pending:
                return self._pending.pop(id(inputs))
        return func(*args, **keywords)


def _batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> _BatchNorm | None:
    if training or running_mean is None or running_var is None:
        return None
    return _BatchNorm(running_mean, running_var, weight, bias, eps)


class _Convolution(NamedTuple):
    """The arguments of a two-dimensional convolution, in torch's order."""

    input: Tensor
    weight: Tensor
    bias: Tensor | None = None
    stride: int | Sequence[int] = 1
    padding: str | int | Sequence[int] = 0
    dilation: int | Sequence[int] = 1
    groups: int = 1

    @property
    def has_slow_kernel(self) -> bool:
        """Whether the library has no fast weight gradient, and we have."""
        channels, of_group, height, width = self.weight.shape
        return (
            self.groups == channels == self.input.shape[1]
            and of_group == 1
            and max(height, width) > _LARGEST_FAST_KERNEL
            and self.weight.dtype == self.input.dtype == torch.float32
            and self.input.device.type == "cpu"
            and not isinstance(self.padding, str)
            and _both(self.dilation) == (1, 1)
            and IS_COMPILED
        )

    def run(self) -> Tensor:
        """Return the output."""
        if self.has_slow_kernel and self.weight.requires_grad and not isinstance(self.padding, str):
            stride, padding = _both(self.stride), _both(self.padding)
            return _Depthwise.apply(channels_last(self.input), self.weight, self.bias, stride, padding)
        settings: dict[str, Any] = self._asdict()
        return torch.conv2d(**settings)


class _Depthwise(torch.autograd.Function):
    """A depthwise convolution with our weight gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        stride: tuple[int, int],
        padding: tuple[int, int],
    ) -> Tensor:
        ctx.save_for_backward(inputs, weight)
        ctx.stride, ctx.padding = stride, padding
        return torch.conv2d(inputs, weight, bias, stride, padding, groups=len(weight))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradients: Tensor) -> tuple[Tensor | None, Tensor, Tensor | None, None, None]:
        inputs, weight = ctx.saved_tensors
        gradients = channels_last(gradients)
        of_inputs = None
        if ctx.needs_input_grad[0]:
            arguments = (None, ctx.stride, ctx.padding, (1, 1), False, (0, 0), len(weight), (True, False, False))
            of_inputs = torch.ops.aten.convolution_backward(gradients, inputs, weight, *arguments)[0]
        sums = _kernel_gradients(inputs, gradients, weight.shape[2:], (*ctx.stride, *ctx.padding))
        of_bias = sums[-1, 0] if ctx.needs_input_grad[2] else None
        return of_inputs, sums[:-1].permute(2, 0, 1).unsqueeze(1), of_bias, None, None


def _kernel_gradients(
    inputs: Tensor, gradients: Tensor, size: Sequence[int], geometry: tuple[int, int, int, int]
) -> Tensor:
    """Return the weights' gradients (height, width, channels), and as a last row those of the biases.

    Each thread has channels of its own: the sums are the same for any number of threads.
    """
    from unseen.models.kernels.depthwise import write_kernel_gradients

    channels, threads = inputs.shape[1], torch.get_num_threads()
    sums = torch.empty(size[0] + 1, size[1], channels)
    images, gradients_of_outputs = (tensor.detach().permute(0, 2, 3, 1).numpy() for tensor in (inputs, gradients))
    ends = [min(-(-channels * number // (16 * threads)) * 16, channels) for number in range(threads + 1)]

    def write(part: tuple[int, int]) -> None:
        write_kernel_gradients(images, gradients_of_outputs, geometry, part, sums.numpy())

    list((map if threads == 1 else _pool(threads, os.getpid()).map)(write, pairwise(ends)))
    return sums


@cache
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    # A process that was forked has none of its parent's threads.
    return ThreadPoolExecutor(threads, "unseen-gradients")


def _both(value: int | Sequence[int]) -> tuple[int, int]:
    """The vertical and the horizontal value."""
    return (value, value) if isinstance(value, int) else (value[0], value[-1])
