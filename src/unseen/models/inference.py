"""Embeddings of a catalogue's items."""

import numpy as np
import torch
from torch import Tensor, nn

from unseen.core.progress import Progress, no_progress
from unseen.data.batches import CatalogueDataset, evaluation_batches, make_loader


def embed(
    model: nn.Module,
    dataset: CatalogueDataset,
    indices: np.ndarray,
    *,
    batch_size: int = 256,
    workers: int = 0,
    progress: Progress = no_progress,
) -> Tensor:
    """Compute the raw embeddings of the items at `indices` in evaluation mode; float32 on the CPU."""
    was_training = model.training
    model.eval()
    rows: list[Tensor] = []
    done, device = 0, device_of(model)
    with torch.inference_mode():
        for batch in make_loader(dataset, evaluation_batches(indices, batch_size), workers=workers):
            rows.append(model(batch.inputs.to(device)).float().cpu())
            done += len(batch.indices)
            progress(done, len(indices), "")
    model.train(was_training)
    return torch.cat(rows)


def device_of(network: nn.Module) -> torch.device:
    """Return the device of a network's parameters, the CPU if it has none."""
    return next((parameter.device for parameter in network.parameters()), torch.device("cpu"))
