"""Cached outputs of a network that is not trained: each image goes through it once, in evaluation mode."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import torch
from torch import nn

import unseen
from unseen.core.config import Record
from unseen.core.randomness import derive
from unseen.data.batches import CatalogueDataset, ItemKey
from unseen.data.row_cache import CachedRows, RowCache, cached_rows
from unseen.models.engine import Engine, EngineName, device_of

# Incremented when this file changes the content of a cache.
_CODE = 3
_LIBRARIES = ("torch", "timm", "torchvision", "pillow")
_ONNX_LIBRARIES = ("onnxruntime", "onnx", "onnxscript")


@dataclass(frozen=True)
class OutputCache:
    """Where and how outputs are cached."""

    folder: Path
    made_by: Record  # what determines the outputs beside catalogue and code versions: weights, transform, cut
    dtype: str  # NumPy name of the stored type
    description: str  # for messages: "pooled features"
    engine: EngineName = "torch"  # that computes them


@dataclass(frozen=True)
class ViewSelection:
    """Which views of which items are needed."""

    indices: np.ndarray  # items whose plain view is needed
    augmented: np.ndarray  # items whose augmented views are needed as well: those that are trained on
    views: int  # 1 for the plain view only, n for n - 1 augmented views besides it


def cached_dataset(
    network: nn.Module,
    dataset: CatalogueDataset,
    cache: OutputCache,
    selection: ViewSelection,
    *,
    workers: int = 0,
    quiet: bool = False,
) -> CatalogueDataset:
    """Return the data set of a network's outputs, after computing those that are not cached yet.

    A view depends only on the item and the number of the view, and a cache has a row for every item: runs of any seed
    and split share it.
    """
    engine = Engine(network, cache.engine)

    def view(number: int, needed: np.ndarray) -> np.ndarray:
        # Crops for training may have another size than those for evaluation.
        shape = _output_shape(network, dataset, _view_of(int(selection.indices[0]), number))
        key = {
            **cache.made_by,
            "catalogue": dataset.catalogue.fingerprint,
            "view": number,
            "dtype": cache.dtype,
            "engine": cache.engine,
            "code": {"caching": _CODE, "unseen": unseen.__version__, **_versions(cache.engine)},
        }
        which = f", view {number + 1} of {selection.views}" if selection.views > 1 else ""
        rows = RowCache(cache.folder, key, (len(dataset), *shape), cache.dtype, f"{cache.description}{which}")
        return cached_rows(
            rows, lambda blocks: _outputs(engine, dataset, blocks, number, workers), needed=needed, quiet=quiet
        )

    reader = CachedRows(
        dataset.catalogue.reader,
        view(0, selection.indices),
        selection.indices,
        views=[view(number, selection.augmented) for number in range(1, selection.views)],
        augmented=selection.augmented,
    )
    return CatalogueDataset(replace(dataset.catalogue, reader=reader))


def hash_of_weights(network: nn.Module) -> str:
    """Return the SHA-256 of all parameters and buffers with their names, dtypes and shapes."""
    digest = hashlib.sha256()
    for name, tensor in network.state_dict().items():
        plain = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {plain.dtype} {tuple(plain.shape)} ".encode())
        digest.update(plain.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _output_shape(network: nn.Module, dataset: CatalogueDataset, item_key: ItemKey) -> tuple[int, ...]:
    example = dataset[item_key].inputs.to(device_of(network))
    with torch.inference_mode():
        return tuple(network.eval()(example).shape[1:])


def _outputs(
    engine: Engine, dataset: CatalogueDataset, blocks: Sequence[range], view: int, workers: int
) -> Iterator[np.ndarray]:
    item_keys = [[_view_of(index, view) for index in block] for block in blocks]
    for rows in engine.rows(dataset, item_keys, workers=workers):
        yield rows.numpy()


def _view_of(index: int, view: int) -> ItemKey:
    return ItemKey(index, derive(0, "view", view, index) if view else None)


def _versions(engine: EngineName) -> dict[str, str]:
    versions = {}
    for library in (*_LIBRARIES, *(_ONNX_LIBRARIES if engine == "onnx" else ())):
        try:
            versions[library] = version(library)
        except PackageNotFoundError:  # an extra that is not installed did not compute the outputs
            continue
    return versions
