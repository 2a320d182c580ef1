"""Guards: a non-finite number, or batches without pairs, stop a run before the optimiser moves (PROMISES R6, R7)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from unseen.core.errors import BatchError, NonFiniteError
from unseen.core.files import write_json

EMPTY_SHARE = 0.2
EMPTY_PATIENCE = 10


def gradient_norm(parameters: Iterable[nn.Parameter]) -> Tensor:
    """The Euclidean norm of all gradients together."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    return nn.utils.get_total_norm(gradients)


Named = Sequence[tuple[str, nn.Parameter]]


@contextmanager
def watched(
    embeddings: Tensor, named_parameters: Named, *, step: int, names: Callable[[], list[str]], folder: Path
) -> Iterator[Callable[[Tensor, Tensor], Tensor]]:
    """Stop before a step is applied if its loss or a gradient is not finite; say where, and keep what led to it.

    The block calls what it is given with the loss and the gradient norm: one look at their sum in the common case.
    Parts are told apart only when that fails, or when the loss itself has refused the embeddings.
    """

    def watch(value: Tensor, norm: Tensor) -> Tensor:
        if not torch.isfinite(value.detach() + norm):
            _stop(embeddings, named_parameters, value, step, names, folder)
        return norm

    try:
        yield watch
    except BatchError:
        _stop(embeddings, named_parameters, None, step, names, folder)
        raise


def _stop(
    embeddings: Tensor, named: Named, value: Tensor | None, step: int, names: Callable[[], list[str]], folder: Path
) -> None:
    part = _first_non_finite(value, embeddings, named)
    if part is None:
        return  # every number is finite, only their squares overflow; or the batch is unfit for another reason
    items = names()
    loss = None if value is None else repr(value.item())
    write_json(folder / "non_finite.json", {"step": step, "part": part, "loss": loss, "batch": items})
    shown = ", ".join(items[:3]) + (f" and {len(items) - 3} more" if len(items) > 3 else "")
    raise NonFiniteError(
        f"step {step}: {part} is not finite, so the step was not applied (batch: {shown}; all in non_finite.json)",
        hint="Use a lower learning rate or gradient clipping, and look at these images.",
    )


def _first_non_finite(value: Tensor | None, embeddings: Tensor, named: Named) -> str | None:
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
    """Stop a run in which more than a fifth of the batches gave the loss nothing to learn from."""
    if steps >= EMPTY_PATIENCE and empty > EMPTY_SHARE * steps:
        raise BatchError(
            f"{empty} of the first {steps} batches gave the loss no pair or tuple to learn from",
            hint="Use a sampler with per_class >= 2 and at least two classes in a batch, or another miner.",
        )
