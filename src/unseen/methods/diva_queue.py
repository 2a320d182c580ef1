"""The self-supervised loss of DiVA: InfoNCE over a queue of keys, weighted by the inverse density of distances."""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from unseen.miners.distance import log_inverse_density
from unseen.pairs.functional import inner_products

LOWER_CUTOFF, UPPER_CUTOFF = 0.5, 1.4

WeightAxis = Literal["queue", "queries"]


def queue_weights(similarity: Tensor, width: int, axis: WeightAxis = "queue") -> Tensor:
    """Weights of queued keys (columns) for queries (rows): the inverse density of their distance on the sphere.

    Keys beyond a distance of 1.4 have weight 0, those within 0.5 the weight at 0.5. The weights of a query sum to 1;
    where all keys are far they are equal. With axis "queries" the weights of a key sum to 1 instead, as in the
    authors' first release.
    """
    logarithm = log_inverse_density(similarity.detach(), width, LOWER_CUTOFF)
    is_far = similarity.detach() < 1 - UPPER_CUTOFF**2 / 2
    # The authors' floor of 1e-45 makes the weights equal where all keys are far; so does a constant.
    logarithm = logarithm.masked_fill(is_far, -torch.inf)
    dim = 1 if axis == "queue" else 0
    none_near = is_far.all(dim, keepdim=True)
    return logarithm.masked_fill(none_near, 0).softmax(dim)


def weighted_info_nce(queries: Tensor, keys: Tensor, queue: Tensor, *, temperature: float, axis: WeightAxis) -> Tensor:
    """Mean cross-entropy of each query's own key against the weighted similarities of the queue; all rows are unit."""
    own = (queries * keys).sum(1, keepdim=True)
    others = inner_products(queries, queue)
    weighted = others * queue_weights(others, queries.shape[1], axis) if len(queue) else others
    logits = torch.cat((own, weighted), dim=1) / temperature
    return cross_entropy(logits, torch.zeros(len(logits), dtype=torch.int64, device=logits.device))


class Queue(nn.Module):
    """A first-in, first-out queue of keys; its rows and the number of keys ever enqueued are buffers."""

    rows: Tensor
    enqueued: Tensor

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.size = size
        self.register_buffer("rows", torch.zeros(size, width))
        self.register_buffer("enqueued", torch.zeros((), dtype=torch.int64))

    def content(self) -> Tensor:
        """A copy of the keys, oldest first; fewer than `size` until the queue is full."""
        count = int(self.enqueued)
        if count < self.size:
            return self.rows[:count].clone()
        return self.rows.roll(-(count % self.size), 0)

    @torch.no_grad()
    def put(self, keys: Tensor) -> None:
        """Enqueue keys; they replace the oldest ones."""
        newest = keys[-self.size :]
        first = int(self.enqueued) + len(keys) - len(newest)
        rows = (torch.arange(len(newest), device=self.rows.device) + first) % self.size
        self.rows.index_copy_(0, rows, newest.to(self.rows))
        self.enqueued += len(keys)
