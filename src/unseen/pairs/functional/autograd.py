"""Base of the building blocks: backward passes that refuse second derivatives, values with a known gradient."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from unseen.core.errors import UnseenError


class SecondDerivativeError(UnseenError):
    """A second derivative of a building block or loss that has a first one only."""


class _NoSecondDerivative(torch.autograd.Function):
    """The identity, whose backward pass is refused."""

    @staticmethod
    def forward(context: Any, block: str, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        context.block = block
        return tuple(None if gradient is None else gradient.view_as(gradient) for gradient in gradients)

    @staticmethod
    def backward(context: Any, *_: Tensor) -> None:
        raise SecondDerivativeError(
            f"{context.block} has no second derivative: its gradient is written by hand",
            hint="Do not differentiate through the gradient of this loss; gradient penalties need one in plain torch.",
        )


Backward = Callable[..., Any]


def first_order(block: str) -> Callable[[Backward], Backward]:
    """Decorate the backward pass of an autograd function: it runs without a graph, and a second one is an error.

    `block` is the function's public name, for the message. Under `create_graph=True` torch would otherwise take the
    gradient for a constant, and second derivatives would be silently wrong.
    """

    def decorate(backward: Backward) -> Backward:
        @functools.wraps(backward)
        def wrapper(context: Any, *gradients: Tensor) -> Any:
            if not torch.is_grad_enabled():
                return backward(context, *gradients)
            with torch.no_grad():
                outputs = backward(context, *gradients)
            outputs = outputs if isinstance(outputs, tuple) else (outputs,)
            # A leaf that requires gradients, so that the refusing node stands in the graph of every output.
            connected = [None if output is None else output.detach().requires_grad_() for output in outputs]
            return _NoSecondDerivative.apply(block, *connected)

        return wrapper

    return decorate


class _WithGradient(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, value: tuple[Tensor], slopes: tuple[Tensor, ...], *sources: Tensor) -> Tensor:
        context.save_for_backward(*slopes)
        # In a tuple, autograd does not take the value for an input, whose return would be a view: no one could add
        # to that in place, as other libraries do to losses.
        return value[0]

    @staticmethod
    @first_order("with_gradient")
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, *(slope * gradient for slope in context.saved_tensors)


def with_gradient(source: Tensor, value: Tensor, slope: Tensor) -> Tensor:
    """Attach a known gradient to a value that was computed without a graph.

    The value is a scalar, with a slope for each entry of the source, or has one entry for each entry, or each row
    (last dimension 1), of the source.
    """
    return _WithGradient.apply((value,), (slope,), source)


def with_gradients(value: Tensor, slopes: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """The same for a scalar with several sources, each with its slope: (source, slope) in turn."""
    return _WithGradient.apply((value,), tuple(slope for _, slope in slopes), *(source for source, _ in slopes))


def weighted_sum(values: Tensor, weights: Tensor) -> Tensor:
    """Sum of values times weights, where the weights are constants for the gradient."""
    return with_gradient(values, (values.detach() * weights).sum(), weights)
