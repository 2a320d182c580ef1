"""Cross-batch memory: any loss over pairs or tuples, also against the embeddings of the batches before."""

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from unseen.core.checks import check_at_least, check_count
from unseen.core.errors import BatchError, ConfigError
from unseen.core.randomness import derive
from unseen.core.registry import loss
from unseen.losses.base import own_parameters_of
from unseen.pairs.pairs import Pairs, pairs_of
from unseen.pairs.tuples import Miner, Usage, total


@loss("cross_batch_memory")
class CrossBatchMemory(nn.Module):
    r"""The loss of a batch, plus its loss against a queue of the embeddings before it.

    .. math:: L(X, X) + w\, L(X, M), \qquad M \leftarrow \text{the newest } m \text{ rows of } (M, X)

    ====================  =======================================================================================
    X                     the batch; (X, X) leaves out each sample with itself
    L(X, M)               ``loss`` with the anchors X and the reference set M: any loss over pairs or tuples, with
                          its miner, which mines both terms
    M                     the embeddings and labels of the batches before, constants for the gradient, kept as
                          they were when their batch was trained
    m                     ``size``, the most that M holds (>= 1)
    w                     ``memory_weight`` (>= 0), the weight of the second term
    ``start_step``        the training steps before M counts (>= 0); it is filled from the first one on
    ``embedding_size``    the width of the embeddings; a run supplies it
    ====================  =======================================================================================

    In training mode a call advances the queue, after its value is known; in evaluation mode it does not. The queue and
    its counters are buffers in float32 (float64 after ``double()``): a checkpoint holds them. With several processes
    every one is given the joined batch, as always, and then holds the same queue.

    Shape:      n embeddings -> scalar of their dtype (at least float32); n may exceed m, the last m rows then stay
    Empty:      while M is empty, and before ``start_step``, only L(X, X)
    Reference:  Wang et al., Cross-Batch Memory for Embedding Learning, CVPR 2020, arXiv:1912.06798
    Differs:    M enters the queue after the loss, so a sample meets its own batch once, with the gradient of both
                sides, and never its own copy; the authors, and pytorch-metric-learning, put X into M first, the one
                keeping the copies and the other taking them out and having no L(X, X). ``indices_tuple`` chooses
                in L(X, X) only. The authors also begin to fill M at ``start_step``, after 1000 steps
    Raises:     ConfigError for a loss that takes no reference set
    """

    usage: Usage | None = None
    queue: Tensor
    queue_labels: Tensor
    enqueued: Tensor
    steps: Tensor

    def __init__(
        self,
        loss: nn.Module,
        *,
        embedding_size: int,
        size: int = 1024,
        memory_weight: float = 1.0,
        start_step: int = 0,
    ) -> None:
        super().__init__()
        accepted = inspect.signature(loss.forward).parameters if isinstance(loss, nn.Module) else {}
        if "ref_emb" not in accepted:
            raise ConfigError(
                "CrossBatchMemory: loss must be one over pairs or tuples, that takes a reference set",
                got=type(loss).__name__,
                hint="Use contrastive, triplet, margin, multi_similarity or another with a miner.",
            )
        check_count("CrossBatchMemory", "embedding_size", embedding_size)
        check_count("CrossBatchMemory", "size", size)
        check_at_least("CrossBatchMemory", "memory_weight", memory_weight, 0)
        check_count("CrossBatchMemory", "start_step", start_step, 0)
        self.loss: Any = loss
        self.embedding_size, self.size = embedding_size, size
        self.memory_weight, self.start_step = memory_weight, start_step
        self._takes_key = "key" in accepted
        self.register_buffer("queue", torch.zeros(size, embedding_size))
        self.register_buffer("queue_labels", torch.zeros(size, dtype=torch.int64))
        self.register_buffer("enqueued", torch.zeros((), dtype=torch.int64))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    @property
    def miner(self) -> Miner | None:
        """The miner of the loss."""
        return getattr(self.loss, "miner", None)

    def forward(
        self,
        embeddings: Tensor | Pairs,
        labels: Tensor | None = None,
        indices_tuple: Sequence[Tensor] | None = None,
        *,
        key: int | None = None,
    ) -> Tensor:
        """The loss of a batch; `key` governs what the miner and the loss draw, for each term apart."""
        pairs = pairs_of(embeddings, labels)
        if not pairs.is_self:
            raise BatchError(
                "CrossBatchMemory: pairs have a reference set already", hint="Use the loss without the memory."
            )
        if pairs.width != self.embedding_size:
            raise BatchError(
                f"CrossBatchMemory: embeddings must have the {self.embedding_size} columns of the memory",
                got=tuple(pairs.embeddings.shape),
            )
        value = self._term(pairs, indices_tuple, (), key)
        usage: Usage | None = getattr(self.loss, "usage", None)
        memory, memory_labels = self.memory()
        if len(memory) and self.steps >= self.start_step:
            reference = (memory.to(pairs.embeddings), memory_labels.to(pairs.labels))
            memory_key = None if key is None else derive(key, "memory")
            value = value + self.memory_weight * self._term(pairs, None, reference, memory_key)
            if usage is not None:
                usage = Usage(
                    pairs.labels,
                    torch.cat((pairs.labels, reference[1])),
                    True,
                    total(usage.num_tuples) + total(self.loss.usage.num_tuples),
                    total(usage.num_active) + total(self.loss.usage.num_active),
                )
        self.usage = usage
        if self.training:
            self._enqueue(pairs.embeddings.detach(), pairs.labels)
        return value

    def memory(self) -> tuple[Tensor, Tensor]:
        """A copy of the remembered embeddings and their labels, the oldest first."""
        count = int(self.enqueued)
        oldest = count % self.size if count > self.size else 0
        parts = (slice(oldest, min(count, self.size)), slice(0, oldest))
        # A copy, as what backward needs must not change when the queue advances.
        rows, labels = (torch.cat([kept[part] for part in parts]) for kept in (self.queue, self.queue_labels))
        return rows, labels

    def own_parameters(self) -> list[dict[str, Any]]:
        """The parameters of the loss."""
        return own_parameters_of(self.loss)

    def _term(
        self, pairs: Pairs, indices_tuple: Sequence[Tensor] | None, reference: tuple[Tensor, ...], key: int | None
    ) -> Tensor:
        drawn = {"key": key} if self._takes_key else {}
        return self.loss(pairs.embeddings, pairs.labels, indices_tuple, *reference, **drawn)

    @torch.no_grad()
    def _enqueue(self, rows: Tensor, labels: Tensor) -> None:
        if self.queue.dtype not in (torch.float32, torch.float64):
            self.queue = self.queue.float()  # someone moved the module to half precision
        first = max(0, len(rows) - self.size)
        places = (torch.arange(first, len(rows), device=self.queue.device) + self.enqueued) % self.size
        self.queue.index_copy_(0, places, rows[first:].to(self.queue))
        self.queue_labels.index_copy_(0, places, labels[first:].to(self.queue_labels))
        self.enqueued += len(rows)
        self.steps += 1
