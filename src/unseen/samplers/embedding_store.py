"""Batches drawn from a store of embeddings that the run keeps up to date."""

import numpy as np

from unseen.core.checks import check_count
from unseen.core.randomness import derive, numpy_generator
from unseen.samplers.base import BatchPosition, ItemsByClass, check_composition


class EmbeddingSampler:
    """Draws batches from the latest embeddings of the run; a subclass defines `draw`."""

    def __init__(self, batch_size: int, per_class: int, big_batch_size: int, project: int | None) -> None:
        owner = type(self).__name__
        check_composition(owner, batch_size, per_class)
        check_count(owner, "big_batch_size", big_batch_size, at_least=batch_size)
        if project is not None:
            check_count(owner, "project", project)
        self.batch_size, self.per_class, self.big_batch_size = batch_size, per_class, big_batch_size
        self.project = project

    def draw(self, rows: np.ndarray, items: ItemsByClass, generator: np.random.Generator) -> np.ndarray:
        """Return the indices of one batch, from the rows of all items."""
        raise NotImplementedError

    def batches(self, labels: np.ndarray, seed: int) -> "EmbeddingStoreBatches":
        """Return the batches over items with these labels, as indices into `labels`."""
        return EmbeddingStoreBatches(labels, seed, self)


class EmbeddingStoreBatches:
    """Batches of an epoch, all drawn at its start from the latest embedding of every item.

    The store holds unit-length rows: those of all items before training, updated by the training steps. Store and drawn
    batches belong to the checkpoint, so a resumed run continues with the same batches.

    Differs:  Roth et al. store the network's outputs, which lack unit length for N-pair, angular and lifted losses
    """

    def __init__(self, labels: np.ndarray, seed: int, sampler: EmbeddingSampler) -> None:
        self._items = ItemsByClass(labels)
        self.seed, self.sampler = seed, sampler
        self.batches_per_epoch = max(1, len(labels) // sampler.batch_size)
        self.rows = np.empty((0, 0), dtype=np.float32)
        self._epoch = -1
        self._drawn = np.empty((0, sampler.batch_size), dtype=np.int64)

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
            self._drawn = np.stack([self.sampler.draw(rows, self._items, numpy_generator(key)) for key in keys])
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
        """Return the store, or its projection on fixed random directions if the sampler asks for one."""
        project = self.sampler.project
        if project is None:
            return self.rows
        generator = numpy_generator(derive(self.seed, "projection", self.rows.shape[1], project))
        directions = generator.standard_normal((self.rows.shape[1], project), dtype=np.float32)
        return self.rows @ (directions / np.float32(project**0.5))


def _normalize(embeddings: np.ndarray) -> np.ndarray:
    rows = embeddings.astype(np.float32)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float32).tiny)
