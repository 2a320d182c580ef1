"""Cross-batch memory: any pair or tuple loss, also against the embeddings of previous batches."""

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
from unseen.pairs.parameters import ParameterGroup
from unseen.pairs.tuples import Miner, Usage, total


@loss("cross_batch_memory")
class CrossBatchMemory(nn.Module):
    r"""Cross-batch memory: a loss on the batch plus the same loss against a queue.

    .. math:: L(X, X) + w\, L(X, M), \qquad M \leftarrow \text{the newest } m \text{ rows of } (M, X)

    ====================  =======================================================================================
    X                     the batch; (X, X) leaves out each sample with itself
    L(X, M)               ``loss`` with the anchors X and the reference set M: any loss over pairs or tuples, with
                          its miner, which is used in both terms
    M                     embeddings and labels of previous batches, constants for the gradient
    m                     ``size``, capacity of M (>= 1)
    w                     ``memory_weight`` (>= 0), weight of the second term
    ``start_step``        training steps before M is used (>= 0); it is filled from the first step on
    ``embedding_size``    dimension of the embeddings; a run supplies it
    ====================  =======================================================================================

    In training mode a call enqueues the batch after computing the loss; in evaluation mode it does not. The queue and
    its counters are buffers in float32 (float64 after ``double()``), so checkpoints contain them. With several
    processes each one gets the joined batch, as always, and holds the same queue.

    Shape:      n embeddings -> scalar of their dtype (at least float32); n may exceed m, the last m rows then stay
    Empty:      while M is empty, and before ``start_step``, only L(X, X)
    Reference:  Wang et al., Cross-Batch Memory for Embedding Learning, CVPR 2020, arXiv:1912.06798
    Differs:    X is enqueued after the loss, so a sample is never compared with its own copy. The authors and
                pytorch-metric-learning enqueue X first; the authors keep the copies, pytorch-metric-learning
                removes them and has no L(X, X). ``indices_tuple`` selects in L(X, X) only. The authors fill M
                from ``start_step`` on, after 1000 steps
    Raises:     ConfigError for a loss that does not take a reference set
    """

    usage: Usage | None = None
    queue: Tensor
    queue_labels: Tensor
    enqueued: Tensor
    steps: Tensor

    def __init__(
        self, loss: nn.Module, *, embedding_size: int, size: int = 1024, memory_weight: float = 1.0, start_step: int = 0
    ) -> None:
        super().__init__()
        accepted = inspect.signature(loss.forward).parameters if isinstance(loss, nn.Module) else {}
        if "ref_emb" not in accepted:
            raise ConfigError(
                "CrossBatchMemory: loss must be a pair or tuple loss that takes a reference set",
                got=type(loss).__name__,
                hint="Use contrastive, triplet, margin, multi_similarity or another loss with a miner.",
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
        """Loss of a batch; the draws of miner and loss derive from `key`, separately for each term."""
        pairs = pairs_of(embeddings, labels)
        if not pairs.is_self:
            raise BatchError(
                "CrossBatchMemory: the pairs already have a reference set", hint="Use the loss without the memory."
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
        """Copy of the queued embeddings and their labels, the oldest first."""
        count = int(self.enqueued)
        oldest = count % self.size if count > self.size else 0
        parts = (slice(oldest, min(count, self.size)), slice(0, oldest))
        # A copy, as backward needs it unchanged after the queue advanced.
        rows, labels = (torch.cat([buffer[part] for part in parts]) for buffer in (self.queue, self.queue_labels))
        return rows, labels

    def own_parameters(self) -> list[ParameterGroup]:
        """Parameter groups of the loss."""
        return own_parameters_of(self.loss)

    def _term(
        self, pairs: Pairs, indices_tuple: Sequence[Tensor] | None, reference: tuple[Tensor, ...], key: int | None
    ) -> Tensor:
        keywords = {"key": key} if self._takes_key else {}
        return self.loss(pairs.embeddings, pairs.labels, indices_tuple, *reference, **keywords)

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
