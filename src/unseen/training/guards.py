"""Guards: a non-finite number, or batches without pairs, stop a run before the optimizer's step."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from unseen.core.errors import BatchError, NonFiniteError
from unseen.core.files import write_json

EMPTY_SHARE = 0.2
EMPTY_PATIENCE = 10

NamedParameters = Sequence[tuple[str, nn.Parameter]]


def gradient_norm(parameters: Iterable[nn.Parameter]) -> Tensor:
    """The Euclidean norm of all gradients together."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    return nn.utils.get_total_norm(gradients)


@contextmanager
def watched(
    embeddings: Tensor, named_parameters: NamedParameters, *, step: int, names: Callable[[], list[str]], folder: Path
) -> Iterator[Callable[[Tensor, Tensor], Tensor]]:
    """Stop before a step is applied if its loss or a gradient is not finite; name the part, and record the batch.

    The block calls the yielded function with the loss and the gradient norm; in the common case only their sum is
    checked. Parameters, embeddings and gradients are searched only when that fails, or when the loss refuses them.
    """

    def stop_if_non_finite(value: Tensor | None) -> None:
        part = _first_non_finite(value, embeddings, named_parameters)
        if part is None:
            return  # every number is finite, only their squares overflow; or the batch is refused for another reason
        items, loss = names(), None if value is None else repr(value.item())
        write_json(folder / "non_finite.json", {"step": step, "part": part, "loss": loss, "batch": items})
        shown = ", ".join(items[:3]) + (f" and {len(items) - 3} more" if len(items) > 3 else "")
        raise NonFiniteError(
            f"step {step}: {part} is not finite, so the step was not applied (batch: {shown}; all in non_finite.json)",
            hint="Use a lower learning rate or gradient clipping, and look at these images.",
        )

    def watch(value: Tensor, norm: Tensor) -> Tensor:
        if not torch.isfinite(value.detach() + norm):
            stop_if_non_finite(value)
        return norm

    try:
        yield watch
    except BatchError:
        stop_if_non_finite(None)
        raise


def _first_non_finite(value: Tensor | None, embeddings: Tensor, named: NamedParameters) -> str | None:
    for name, parameter in named:
        if not torch.isfinite(parameter).all():
            return f"parameter {name}"
    if not torch.isfinite(embeddings).all():
        return "the embedding"
    if value is not None and not torch.isfinite(value):
        return "the loss"
    for name, parameter in named:
        if parameter.grad is not None and not torch.isfinite(parameter.grad).all():
            return f"the gradient of {name}"
    return None


def check_not_empty(empty: int, steps: int) -> None:
    """Stop a run in which more than a fifth of the batches had no pair or tuple for the loss."""
    if steps >= EMPTY_PATIENCE and empty > EMPTY_SHARE * steps:
        raise BatchError(
            f"{empty} of the first {steps} batches had no pair or tuple for the loss to learn from",
            hint="Use a sampler with per_class >= 2 and at least two classes in a batch, or another miner.",
        )
