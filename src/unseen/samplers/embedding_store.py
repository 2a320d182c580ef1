"""Batches that are drawn from an embedding store which the run keeps up to date."""

from collections.abc import Callable

import numpy as np

from unseen.core.randomness import derive, numpy_generator
from unseen.samplers.base import BatchPosition, ItemsByClass

Draw = Callable[[np.ndarray, ItemsByClass, np.random.Generator], np.ndarray]


class EmbeddingStoreBatches:
    """Batches of an epoch, all drawn at its start from the last known embedding of every item.

    The store holds rows of unit length: those of all items before training, then those that the training steps gave.
    Store and drawn batches belong to a checkpoint, so a run that is resumed goes on with the same batches.

    =========  ====================================================================================
    draw       positions of a batch from the store, the items by class, and a generator for its place
    project    dimensions of a fixed random projection that `draw` sees instead of the rows; None: the rows
    =========  ====================================================================================

    Differs:   R stores what its networks give, which is of unit length but for N-pair, angular and lifted losses
    """

    def __init__(self, labels: np.ndarray, seed: int, batch_size: int, draw: Draw, *, project: int | None) -> None:
        self._grouped = ItemsByClass(labels)
        self.seed, self.batch_size, self.draw, self.project = seed, batch_size, draw, project
        self.batches_per_epoch = max(1, len(labels) // batch_size)
        self.rows = np.empty((0, 0), dtype=np.float32)
        self._epoch = -1
        self._drawn = np.empty((0, batch_size), dtype=np.int64)

    def start(self, embeddings: np.ndarray) -> None:
        """Fill the store with the embeddings of all items."""
        assert len(embeddings) == len(self._grouped.classes), "one embedding an item"
        self.rows = _unit(embeddings)

    def observe(self, positions: np.ndarray, embeddings: np.ndarray) -> None:
        """Overwrite the rows of these items."""
        self.rows[positions] = _unit(embeddings)

    def batch(self, place: BatchPosition) -> np.ndarray:
        """Positions of the batch's items; the first request for an epoch draws all its batches from the store."""
        assert len(self.rows), "a store is filled before the first batch"
        if place.epoch != self._epoch:
            rows = self._projected()
            keys = [derive(self.seed, "stored batch", place.epoch, number) for number in range(self.batches_per_epoch)]
            self._drawn = np.stack([self.draw(rows, self._grouped, numpy_generator(key)) for key in keys])
            self._epoch = place.epoch
        return self._drawn[place.batch]

    def state(self) -> dict[str, np.ndarray]:
        """The store, and the epoch whose batches are drawn, with them."""
        return {"rows": self.rows, "epoch": np.array([self._epoch]), "drawn": self._drawn}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go on from a store and from drawn batches."""
        self.rows, self._drawn = state["rows"].copy(), state["drawn"].copy()
        self._epoch = int(state["epoch"][0])

    def _projected(self) -> np.ndarray:
        if self.project is None:
            return self.rows
        generator = numpy_generator(derive(self.seed, "projection", self.rows.shape[1], self.project))
        directions = generator.standard_normal((self.rows.shape[1], self.project), dtype=np.float32)
        return self.rows @ (directions / np.float32(self.project**0.5))


def _unit(embeddings: np.ndarray) -> np.ndarray:
    rows = embeddings.astype(np.float32)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float32).tiny)
