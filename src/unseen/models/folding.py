"""Batch norm in evaluation mode is a scale and a shift: folded into the convolution before it, it costs nothing."""

import copy
import itertools
from collections import Counter
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

# Largest difference that folding may make on the example, as a share of the largest output. Rounding makes about 1e-6.
_TOLERANCE = 1e-3


class _Call(NamedTuple):
    module: nn.Module
    inputs: Tensor
    outputs: Tensor


def folded(network: nn.Module, example: Tensor) -> nn.Module:
    """Return a copy of a network for evaluation, with each batch norm folded into the convolution before it.

    .. math:: W' = \\frac{\\gamma}{\\sqrt{\\sigma^2 + \\epsilon}} W, \\qquad
              b' = \\frac{\\gamma}{\\sqrt{\\sigma^2 + \\epsilon}} (b - \\mu) + \\beta

    Which convolution comes before which batch norm is seen on the example. Where folding does not compute what the
    network computes (a convolution that standardises its weights, an output that is used twice), the copy is left as
    the network is. The network itself is not changed.
    """
    fast = copy.deepcopy(network).eval()
    calls, expected = _calls(fast, example)
    pairs = _foldable(calls)
    names = {module: name for name, module in fast.named_modules()}
    for convolution, norm in pairs:
        _fold(fast, names[convolution], names[norm])
    if not pairs:
        return fast
    with torch.inference_mode():
        difference = (fast(example) - expected).abs().max()
    # Written so that a difference that is not a number counts as too large.
    return (fast if difference <= _TOLERANCE * expected.abs().max() else copy.deepcopy(network)).eval()


def _calls(network: nn.Module, example: Tensor) -> tuple[list[_Call], Tensor]:
    """Return the calls of convolutions and batch norms on the example, in order, and the network's output."""
    calls: list[_Call] = []

    def record(module: nn.Module, inputs: tuple[Tensor, ...], outputs: Tensor) -> None:
        calls.append(_Call(module, inputs[0], outputs))

    watched = [module for module in network.modules() if isinstance(module, nn.Conv2d | _BatchNorm)]
    handles = [module.register_forward_hook(record) for module in watched]
    try:
        with torch.inference_mode():
            output = network(example)
    finally:
        for handle in handles:
            handle.remove()
    return calls, output


def _foldable(calls: list[_Call]) -> list[tuple[nn.Conv2d, _BatchNorm]]:
    """Return each convolution with the batch norm that takes its output, where both run once."""
    count = Counter(call.module for call in calls)
    pairs = []
    for first, second in itertools.pairwise(calls):
        norm = second.module
        if (
            isinstance(first.module, nn.Conv2d)
            and isinstance(norm, _BatchNorm)
            and second.inputs is first.outputs
            and norm.running_mean is not None
            and count[first.module] == count[norm] == 1
        ):
            pairs.append((first.module, norm))
    return pairs


def _fold(network: nn.Module, convolution_name: str, norm_name: str) -> None:
    convolution: Any = network.get_submodule(convolution_name)
    norm: Any = network.get_submodule(norm_name)
    # In float64, so that the only rounding is the one of the result.
    scale = (norm.running_var.double() + norm.eps).rsqrt()
    scale = scale if norm.weight is None else scale * norm.weight.double()
    bias = -norm.running_mean.double() if convolution.bias is None else convolution.bias.double() - norm.running_mean
    bias = bias * scale + (0 if norm.bias is None else norm.bias.double())
    with torch.no_grad():
        weight = (convolution.weight.double() * scale[:, None, None, None]).to(convolution.weight.dtype)
        convolution.weight = nn.Parameter(weight, requires_grad=False)
        convolution.bias = nn.Parameter(bias.to(weight.dtype), requires_grad=False)
    # timm's batch norms contain the dropout and the activation that follow them.
    rest = [getattr(norm, name) for name in ("drop", "act") if hasattr(norm, name)]
    network.set_submodule(norm_name, nn.Sequential(*rest) if rest else nn.Identity())
