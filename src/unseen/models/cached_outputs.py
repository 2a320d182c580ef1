"""The cached outputs of a network that is not trained: each image goes through it once, in evaluation mode."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import torch
from torch import nn

import unseen
from unseen.core.config import Record
from unseen.core.randomness import derive
from unseen.data.batches import CatalogueDataset, ItemKey, make_loader
from unseen.data.row_cache import CachedRows, cached_rows

# Raised when this file or the order of rows changes in a way that changes a cache's content.
_CODE = 2
_LIBRARIES = ("torch", "timm", "torchvision", "pillow")


def cached_dataset(
    network: nn.Module,
    items: CatalogueDataset,
    *,
    made_by: Record,
    indices: np.ndarray,
    augmented: np.ndarray,
    views: int,
    dtype: str,
    folder: Path,
    what: str,
    workers: int = 0,
    quiet: bool = False,
) -> CatalogueDataset:
    """The items as a network without training gives them, from a cache that is filled where it lacks.

    =========  ==========================================================================================
    made_by    what decides the rows beside the catalogue and the versions of the code: weights, transform, cut
    indices    the items that are needed
    augmented  those among them that are trained on
    views      1: the plain view of each; n: besides it n - 1 augmented ones of those that are trained on
    =========  ==========================================================================================

    Views are drawn from the item and the view alone, and a cache has a place for every item: runs of any seed and any
    split share them.
    """
    network.eval()
    with torch.inference_mode():
        example = items[ItemKey(int(indices[0]), None)].inputs.to(_device_of(network))
        shape = tuple(network(example).shape[1:])

    def view(number: int, needed: np.ndarray) -> np.ndarray:
        key = {
            **made_by,
            "catalogue": items.catalogue.fingerprint,
            "view": number,
            "dtype": dtype,
            "code": {"caching": _CODE, "unseen": unseen.__version__, **_versions()},
        }
        return cached_rows(
            folder,
            key,
            shape=(len(items), *shape),
            dtype=dtype,
            compute=lambda blocks: _outputs(network, items, blocks, number, workers),
            needed=needed,
            what=f"{what}, view {number + 1} of {views}" if views > 1 else what,
            quiet=quiet,
        )

    reader = CachedRows(
        items.catalogue.reader,
        view(0, indices),
        indices,
        views=[view(number, augmented) for number in range(1, views)],
        augmented=augmented,
    )
    return CatalogueDataset(replace(items.catalogue, reader=reader))


def hash_of_weights(network: nn.Module) -> str:
    """The SHA-256 of every parameter and buffer with its name, type, shape and bytes."""
    digest = hashlib.sha256()
    for name, tensor in network.state_dict().items():
        plain = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {plain.dtype} {tuple(plain.shape)} ".encode())
        digest.update(plain.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _outputs(
    network: nn.Module,
    items: CatalogueDataset,
    blocks: Sequence[range],
    view: int,
    workers: int,
) -> Iterator[np.ndarray]:
    item_keys = [
        [ItemKey(index, derive(0, "view", view, index) if view else None) for index in block] for block in blocks
    ]
    device = _device_of(network)
    with torch.inference_mode():
        for batch in make_loader(items, item_keys, workers=workers):
            yield network(batch.inputs.to(device)).float().cpu().numpy()


def _device_of(network: nn.Module) -> torch.device:
    return next((each.device for each in network.parameters()), torch.device("cpu"))


def _versions() -> dict[str, str]:
    versions = {}
    for library in _LIBRARIES:
        try:
            versions[library] = version(library)
        except PackageNotFoundError:  # an extra that is not installed had no part in the rows
            continue
    return versions
