"""Base classes of losses: `PairLoss` for those over pairs and tuples, `ProxyLoss` for those with class vectors.

They hold the signature that users and other libraries call, so that the file of a loss holds its formula and settings.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from torch import Tensor, nn

from unseen.core.checks import check_at_least, check_count
from unseen.core.errors import BatchError
from unseen.losses.proxies import Start, check_classes, new_proxies
from unseen.pairs.pairs import Pairs, pairs_of
from unseen.pairs.parameters import ParameterGroup
from unseen.pairs.tuples import NO_USAGE, LossOutput, Miner, PairMasks, Triplets, Usage, choose, usage_of


def own_parameters_of(loss: nn.Module) -> list[ParameterGroup]:
    """The parameter groups that a loss declares; those of another library are trained like the model."""
    declared = getattr(loss, "own_parameters", None)
    if declared is not None:
        return declared()
    parameters = list(loss.parameters())
    return [{"params": parameters, "lr": None, "weight_decay": None}] if parameters else []


class PairLoss(nn.Module, ABC):
    """A loss over the pairs or triplets that its miner, or the caller, selects from a batch."""

    usage: Usage = NO_USAGE
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
        """Loss of a batch; random draws of the miner and of the loss derive from `key`."""
        pairs = pairs_of(embeddings, labels, ref_emb, ref_labels)
        output = self.compute(pairs, choose(pairs, indices_tuple, self.miner, key), key)
        self.usage = usage_of(pairs, output)
        return output.value

    @abstractmethod
    def compute(self, pairs: Pairs, chosen: Triplets | PairMasks, key: int | None = None) -> LossOutput:
        """Loss over the chosen tuples, and how many there are; random losses draw from the key."""

    def own_parameters(self) -> list[ParameterGroup]:
        """Parameter groups of the loss itself, each with `lr` (None: that of the optimiser) and `weight_decay`."""
        return []


class ProxyLoss(nn.Module, ABC):
    """A loss between embeddings and one learned vector, or `per_class` of them, per training class."""

    usage: Usage = NO_USAGE

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
        """Loss of a batch.

        Tuples and key are not used; trainers of other libraries pass both to every loss, the first as None.
        """
        if indices_tuple is not None:
            raise BatchError(f"{type(self).__name__} compares with proxies, not with tuples", hint="Remove the miner.")
        pairs = pairs_of(embeddings, labels)
        check_classes(type(self).__name__, pairs, self.num_classes, self.embedding_size)
        output = self.compute(pairs, self.proxies.to(pairs.embeddings.dtype))
        self.usage = usage_of(pairs, output)
        return output.value

    @abstractmethod
    def compute(self, pairs: Pairs, proxies: Tensor) -> LossOutput:
        """Loss of a batch, and how many samples are in it."""

    def own_parameters(self) -> list[ParameterGroup]:
        """The proxies, at their own learning rate and without weight decay."""
        return [{"params": [self.proxies], "lr": self.proxy_lr, "weight_decay": 0.0}]
