"""Shared by losses with parameters per class: a check of the labels, and initial proxies."""

from typing import Literal

import torch
from torch import nn

from unseen.core.errors import BatchError
from unseen.core.randomness import derive, torch_generator
from unseen.pairs.pairs import Pairs

Start = Literal["normal", "uniform"]


def check_classes(owner: str, pairs: Pairs, num_classes: int, embedding_size: int | None = None) -> None:
    """Refuse labels outside 0 .. num_classes - 1, and embeddings whose dimension is not that of the proxies."""
    if embedding_size is not None and pairs.width != embedding_size:
        raise BatchError(
            f"{owner}: embeddings must have the {embedding_size} columns of the proxies",
            got=tuple(pairs.embeddings.shape),
        )
    lowest, highest = torch.aminmax(pairs.labels)
    if lowest < 0 or highest >= num_classes:
        raise BatchError(
            f"{owner}: labels must be 0 to {num_classes - 1}, the indices of the training classes",
            got=[int(lowest), int(highest)],
        )


def new_proxies(*shape: int, start: Start, seed: int) -> nn.Parameter:
    """Vectors of d = shape[-1] numbers for shape[0] classes: N(0, 1)/8 ("normal") or U(-1, 1)/sqrt(d) ("uniform")."""
    generator = torch_generator(derive(seed, "proxies"))
    if start == "normal":
        return nn.Parameter(torch.randn(shape, generator=generator) / 8)
    return nn.Parameter((torch.rand(shape, generator=generator) * 2 - 1) / shape[-1] ** 0.5)
