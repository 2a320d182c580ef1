"""How losses are called: one shape for those over pairs and tuples, one for those with a vector for each class.

The one place where losses share code by inheritance: the signature that people and other libraries call must be the
same for all of them, and a loss's own file then holds its mathematics and its settings only.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from unseen.core.checks import check_at_least, check_count
from unseen.core.errors import BatchError
from unseen.losses.proxies import Start, check_classes, new_proxies
from unseen.pairs.pairs import Pairs, pairs_of
from unseen.pairs.tuples import LossOutput, Miner, PairMasks, Triplets, Usage, choose, usage_of


def own_parameters_of(loss: nn.Module) -> list[dict[str, Any]]:
    """The parameter groups that a loss declares; one of another library trains its parameters as the model's are."""
    if hasattr(loss, "own_parameters"):
        return loss.own_parameters()
    parameters = list(loss.parameters())
    return [{"params": parameters, "lr": None, "weight_decay": None}] if parameters else []


class PairLoss(nn.Module, ABC):
    """A loss over the pairs or triplets that its miner, or the caller, chooses from a batch."""

    usage: Usage | None = None
    miner: Miner | None

    def forward(
        self,
        embeddings: Tensor | Pairs,
        labels: Tensor | None = None,
        indices_tuple: Sequence[Tensor] | None = None,
        ref_emb: Tensor | None = None,
        ref_labels: Tensor | None = None,
        *,
        key: int | None = None,
    ) -> Tensor:
        """The loss of a batch; `key` governs what the miner and the loss itself draw."""
        pairs = pairs_of(embeddings, labels, ref_emb, ref_labels)
        outcome = self.outcome(pairs, choose(pairs, indices_tuple, self.miner, key), key)
        self.usage = usage_of(pairs, outcome)
        return outcome.value

    @abstractmethod
    def outcome(self, pairs: Pairs, chosen: Triplets | PairMasks, key: int | None = None) -> LossOutput:
        """The value over what was chosen, and how much of it was used; losses that draw do so from the key."""

    def own_parameters(self) -> list[dict[str, Any]]:
        """Parameter groups of the loss itself, each with its `lr` (None: the optimiser's own) and `weight_decay`."""
        return []


class ProxyLoss(nn.Module, ABC):
    """A loss between embeddings and one learnt vector, or `per_class` of them, for each training class."""

    usage: Usage | None = None

    def __init__(
        self,
        *,
        num_classes: int,
        embedding_size: int,
        proxy_lr: float | None,
        seed: int,
        start: Start,
        per_class: int | None = None,
    ) -> None:
        super().__init__()
        owner = type(self).__name__
        check_count(owner, "num_classes", num_classes)
        check_count(owner, "embedding_size", embedding_size)
        if proxy_lr is not None:
            check_at_least(owner, "proxy_lr", proxy_lr, 0)
        check_count(owner, "seed", seed, 0)
        self.num_classes, self.embedding_size, self.proxy_lr, self.seed = num_classes, embedding_size, proxy_lr, seed
        shape = (num_classes, embedding_size) if per_class is None else (num_classes, per_class, embedding_size)
        self.proxies = new_proxies(*shape, start=start, seed=seed)

    def forward(
        self,
        embeddings: Tensor | Pairs,
        labels: Tensor | None = None,
        indices_tuple: None = None,
        *,
        key: int | None = None,
    ) -> Tensor:
        """The loss of a batch.

        No tuples and no key are needed; other libraries' trainers pass both to every loss, the first as None.
        """
        if indices_tuple is not None:
            raise BatchError(f"{type(self).__name__} compares with proxies, not with tuples", hint="Use no miner.")
        pairs = pairs_of(embeddings, labels)
        check_classes(type(self).__name__, pairs, self.num_classes, self.embedding_size)
        outcome = self.outcome(pairs, self.proxies.to(pairs.embeddings.dtype))
        self.usage = usage_of(pairs, outcome)
        return outcome.value

    @abstractmethod
    def outcome(self, pairs: Pairs, proxies: Tensor) -> LossOutput:
        """The value of a batch, and how much of it was used."""

    def own_parameters(self) -> list[dict[str, Any]]:
        """The proxies, at their own learning rate and without weight decay."""
        return [{"params": [self.proxies], "lr": self.proxy_lr, "weight_decay": 0.0}]
