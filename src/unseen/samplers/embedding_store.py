"""Batches drawn from a store of embeddings that the run keeps up to date."""

from collections.abc import Callable

import numpy as np

from unseen.core.randomness import derive, numpy_generator
from unseen.samplers.base import BatchPosition, ItemsByClass

DrawBatch = Callable[[np.ndarray, ItemsByClass, np.random.Generator], np.ndarray]


class EmbeddingStoreBatches:
    """Batches of an epoch, all drawn at its start from the latest embedding of every item.

    The store holds unit-length rows: those of all items before training, updated by the training steps. Store and drawn
    batches belong to the checkpoint, so a resumed run continues with the same batches.

    =========  ====================================================================================
    draw       draws the indices of a batch from the store, the items by class and a generator
    project    dimensions of a fixed random projection of the store that `draw` gets; None for the store
    =========  ====================================================================================

    Differs:   Roth et al. store the network's outputs, which lack unit length for N-pair, angular and lifted losses
    """

    def __init__(self, labels: np.ndarray, seed: int, batch_size: int, draw: DrawBatch, *, project: int | None) -> None:
        self._items = ItemsByClass(labels)
        self.seed, self.batch_size, self.draw, self.project = seed, batch_size, draw, project
        self.batches_per_epoch = max(1, len(labels) // batch_size)
        self.rows = np.empty((0, 0), dtype=np.float32)
        self._epoch = -1
        self._drawn = np.empty((0, batch_size), dtype=np.int64)

    def start(self, embeddings: np.ndarray) -> None:
        """Fill the store with the embeddings of all items."""
        assert len(embeddings) == len(self._items.classes), "one embedding per item"
        self.rows = _normalize(embeddings)

    def observe(self, indices: np.ndarray, embeddings: np.ndarray) -> None:
        """Update the rows of these items."""
        self.rows[indices] = _normalize(embeddings)

    def batch(self, position: BatchPosition) -> np.ndarray:
        """Return the indices of the batch's items; the first request of an epoch draws all its batches."""
        assert len(self.rows), "the store is filled before the first batch"
        if position.epoch != self._epoch:
            rows = self._projected()
            keys = [derive(self.seed, "stored batch", position.epoch, batch) for batch in range(self.batches_per_epoch)]
            self._drawn = np.stack([self.draw(rows, self._items, numpy_generator(key)) for key in keys])
            self._epoch = position.epoch
        return self._drawn[position.batch]

    def state(self) -> dict[str, np.ndarray]:
        """Return the store, the current epoch and its batches."""
        return {"rows": self.rows, "epoch": np.array([self._epoch]), "drawn": self._drawn}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        self.rows, self._drawn = state["rows"].copy(), state["drawn"].copy()
        self._epoch = int(state["epoch"][0])

    def _projected(self) -> np.ndarray:
        if self.project is None:
            return self.rows
        generator = numpy_generator(derive(self.seed, "projection", self.rows.shape[1], self.project))
        directions = generator.standard_normal((self.rows.shape[1], self.project), dtype=np.float32)
        return self.rows @ (directions / np.float32(self.project**0.5))


def _normalize(embeddings: np.ndarray) -> np.ndarray:
    rows = embeddings.astype(np.float32)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float32).tiny)
