"""Objectives: what a run trains, made by a method of a model and a loss; the training loop knows nothing else.

A method is a set of settings. It declares the head of the model, and over a model and a loss it makes an objective:
a module that holds everything that is trained, from whatever the method adds to the loss to whatever it remembers.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from unseen.losses.base import own_parameters_of
from unseen.models import Embedder
from unseen.pairs.tuples import Triplets, Usage


@dataclass(frozen=True, kw_only=True)
class MethodInputs:
    """What a method builds on.

    ===========  =============================================================================================
    model        the part of the model that is trained, with the head that the method declared
    new_loss     the loss of the run for embeddings of a width; every call makes one with parameters of its own
    example      one input of the model, for methods that must try out what they can do with it
    seed         of everything that starts at random
    ===========  =============================================================================================
    """

    model: Embedder
    new_loss: Callable[[int], nn.Module]
    example: Callable[[], Tensor]
    seed: int


@dataclass(frozen=True, kw_only=True)
class ForwardOutput:
    """What the networks made of a batch; methods add what they need.

    `embeddings` are those of the batch's items as the model gives them at evaluation: the guards look at them, and
    samplers that follow the embeddings of the run are shown them.
    """

    embeddings: Tensor


@dataclass(frozen=True, kw_only=True)
class WithFeatures(ForwardOutput):
    """The same with the pooled features that the head was given."""

    features: Tensor


class Objective(nn.Module, ABC):
    """What is trained: the model, what a method adds to it, and the number that becomes smaller.

    A step of the loop is `passed = objective(inputs, key=...)`, under autocast if the run wants that, then
    `objective.value(passed, labels, key=...)`, which goes backward, then the optimiser's step, then
    `objective.after_step(passed, key=...)`. Every draw comes from the key, and whatever lasts from step to step is a
    parameter, a buffer or one of `optimizers()`: a checkpoint holds them all.

    ===========  =================================================================================================
    model        embeds at evaluation; it is what a run keeps
    loss         the loss on the model's embedding; its usage tells empty batches
    views        views of every item in a batch; inputs hold the first of all items, then the second of all items
    embeds       whether `ForwardOutput.embeddings` are those of single items
    ===========  =================================================================================================
    """

    views: ClassVar[int] = 1
    embeds: ClassVar[bool] = True

    def __init__(self, model: Embedder, loss: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.loss = loss
        self._takes_key = "key" in inspect.signature(loss.forward).parameters

    def forward(self, inputs: Tensor, *, key: int) -> ForwardOutput:
        """What the networks make of a batch."""
        return ForwardOutput(embeddings=self.model(inputs))

    @abstractmethod
    def value(self, passed: ForwardOutput, labels: Tensor, *, key: int) -> Tensor:
        """The number that becomes smaller."""

    def after_step(self, passed: ForwardOutput, *, key: int) -> None:
        """What follows the optimiser's step: queues, running averages, steps of `optimizers()`."""
        return

    def own_parameters(self) -> list[dict[str, Any]]:
        """Parameter groups beside the model's, each with its `lr` and `weight_decay` (None: the optimiser's own)."""
        return own_parameters_of(self.loss)

    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        """Optimisers of the method itself, which steps them in `after_step`; their parameters are in no group."""
        return {}

    @property
    def is_empty(self) -> bool:
        """Whether the last batch gave the loss nothing to learn from."""
        usage: Usage | None = getattr(self.loss, "usage", None)
        return usage is not None and usage.is_empty

    def with_features(self, inputs: Tensor) -> WithFeatures:
        """Embeddings, and the features that they are made of."""
        features = self.model.backbone(inputs)
        return WithFeatures(embeddings=self.model.head(features), features=features)

    def loss_of(
        self,
        embeddings: Tensor,
        labels: Tensor,
        *,
        key: int,
        loss: nn.Module | None = None,
        triplets: Triplets | None = None,
    ) -> Tensor:
        """The loss, or another of its kind, of embeddings; one of another library takes no key."""
        drawn = {"key": key} if self._takes_key else {}
        chosen = () if triplets is None else (triplets,)
        return (self.loss if loss is None else loss)(embeddings, labels, *chosen, **drawn)


class Method(Protocol):
    """Settings that declare the head of a model and make an objective of it."""

    def head(self, width: int, embedding_size: int | None) -> nn.Module:
        """The head on pooled features of a width; None as the size leaves features as they are."""
        ...

    def build(self, ground: MethodInputs) -> Objective:
        """The objective of a run."""
        ...
