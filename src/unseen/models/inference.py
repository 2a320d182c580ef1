"""Embeddings of a catalogue's items by a model."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from unseen.data.batches import CatalogueDataset, evaluation_batches, make_loader


def embed(
    model: nn.Module,
    items: CatalogueDataset,
    indices: np.ndarray,
    *,
    batch_size: int = 256,
    workers: int = 0,
    progress: Callable[[int], None] = lambda done: None,
) -> Tensor:
    """Raw embeddings of the items at `indices`, in their order, computed in evaluation mode; float32 on the CPU."""
    was_training = model.training
    model.eval()
    rows: list[Tensor] = []
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    with torch.inference_mode():
        for batch in make_loader(items, evaluation_batches(indices, batch_size), workers=workers):
            rows.append(model(batch.inputs.to(device)).float().cpu())
            progress(len(batch.indices))
    model.train(was_training)
    return torch.cat(rows)
