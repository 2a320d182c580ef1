"""The self-similarity of DiVA: each query's own key among a queue of earlier keys, weighed by their distances."""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from unseen.miners.distance import log_inverse_density
from unseen.pairs.functional import inner_products

LOWER_CUTOFF, UPPER_CUTOFF = 0.5, 1.4

WeightAxis = Literal["queue", "queries"]
WEIGHT_AXES = ("queue", "queries")


def queue_weights(similarity: Tensor, width: int, axis: WeightAxis = "queue") -> Tensor:
    """Weights of queued keys (columns) for queries (rows): the inverse density of their distance on the sphere.

    Keys beyond a distance of 1.4 weigh nothing, those within 0.5 as at 0.5. Weights of a query sum to 1; where all
    keys are far they are equal. The axis "queries" lets those of a key sum to 1 instead, as the first upload of the
    authors does.
    """
    logarithm = log_inverse_density(similarity.detach(), width, LOWER_CUTOFF)
    is_far = similarity.detach() < 1 - UPPER_CUTOFF**2 / 2
    # The authors' floor of 1e-45 leaves sets of far keys only with equal weights; so does a constant.
    logarithm = logarithm.masked_fill(is_far, -torch.inf)
    dim = 1 if axis == "queue" else 0
    none_near = is_far.all(dim, keepdim=True)
    return logarithm.masked_fill(none_near, 0).softmax(dim)


def own_key_among(queries: Tensor, keys: Tensor, queue: Tensor, *, temperature: float, axis: WeightAxis) -> Tensor:
    """Mean cross-entropy of each query's own key against the weighed similarities of the queue; unit rows all."""
    own = (queries * keys).sum(1, keepdim=True)
    others = inner_products(queries, queue)
    weighed = others * queue_weights(others, queries.shape[1], axis) if len(queue) else others
    logits = torch.cat((own, weighed), dim=1) / temperature
    return cross_entropy(logits, torch.zeros(len(logits), dtype=torch.int64, device=logits.device))


class Queue(nn.Module):
    """The newest keys, first in, first out; what is in it and how much was ever put in are buffers."""

    rows: Tensor
    enqueued: Tensor

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.size = size
        self.register_buffer("rows", torch.zeros(size, width))
        self.register_buffer("enqueued", torch.zeros((), dtype=torch.int64))

    def content(self) -> Tensor:
        """A copy of the keys, the oldest first; as many as were put in until it is full."""
        count = int(self.enqueued)
        if count < self.size:
            return self.rows[:count].clone()
        return self.rows.roll(-(count % self.size), 0)

    @torch.no_grad()
    def put(self, keys: Tensor) -> None:
        """Put keys in, in the place of the oldest."""
        newest = keys[-self.size :]
        first = int(self.enqueued) + len(keys) - len(newest)
        places = (torch.arange(len(newest), device=self.rows.device) + first) % self.size
        self.rows.index_copy_(0, places, newest.to(self.rows))
        self.enqueued += len(keys)
