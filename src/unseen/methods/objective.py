"""Objectives: what the training loop minimizes, built by a method from a model and a loss.

A method is a set of settings. It declares the head of the model, and builds an objective: a module that holds
everything that is trained or remembered from step to step. The training loop knows nothing else of a method.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor, nn

from unseen.losses.base import own_parameters_of
from unseen.models import Embedder
from unseen.models.embedder import HeadFactory
from unseen.pairs.parameters import ParameterGroup
from unseen.pairs.tuples import Triplets, Usage


@dataclass(frozen=True, kw_only=True)
class MethodInputs:
    """What a method builds its objective from.

    ===========  =============================================================================================
    model        the trained part of the model, with the head that the method declared
    new_loss     returns a new loss of the run, with its own parameters, for embeddings of a width
    num_classes  number of training classes; labels are 0 to num_classes - 1
    example      returns one input of the model, for methods that have to trace it
    seed         seed of every random initialization
    ===========  =============================================================================================
    """

    model: Embedder
    new_loss: Callable[[int], nn.Module]
    num_classes: int
    example: Callable[[], Tensor]
    seed: int


@dataclass(frozen=True, kw_only=True)
class ForwardOutput:
    """The output of an objective's forward pass; methods add fields.

    `embeddings` are those of the batch's items as at evaluation: the guards check them, and samplers that depend on
    embeddings get them.
    """

    embeddings: Tensor


@dataclass(frozen=True, kw_only=True)
class FeatureOutput(ForwardOutput):
    """Embeddings, and the pooled features below the head."""

    features: Tensor


class Objective(nn.Module):
    """The model, the loss, what a method adds to them, and the value to minimize; as it stands, of the plain method.

    A step of the loop is `output = objective(inputs, key=...)`, under autocast if the run asks for it, then
    `objective.value(output, labels, key=...)` and its backward pass, then the optimizer's step, then
    `objective.after_step(output, key=...)`. Every random draw comes from the key, and all state that lasts from step
    to step is a parameter, a buffer or one of `optimizers()`, so that a checkpoint holds it.

    ===========  =================================================================================================
    model        embeds at evaluation; its weights are the result of a run
    loss         the loss on the model's embedding; its usage tells empty batches
    views        views per item; a batch holds the first view of all items, then the second view of all items
    embeds       whether `ForwardOutput.embeddings` are those of single items
    ===========  =================================================================================================
    """

    views: ClassVar[int] = 1
    embeds: ClassVar[bool] = True

    def __init__(self, model: Embedder, loss: nn.Module) -> None:
        super().__init__()
        self.model, self.loss = model, loss
        self._takes_key = "key" in inspect.signature(loss.forward).parameters

    def forward(self, inputs: Tensor, *, key: int) -> ForwardOutput:
        """The forward pass of a batch."""
        return ForwardOutput(embeddings=self.model(inputs))

    def value(self, output: ForwardOutput, labels: Tensor, *, key: int) -> Tensor:
        """The value to minimize: by default the loss of the embeddings."""
        return self.loss_of(output.embeddings, labels, key=key)

    def after_step(self, output: ForwardOutput, *, key: int) -> None:
        """Update queues, moving averages and the parameters of `optimizers()` after the optimizer's step."""

    def own_parameters(self) -> list[ParameterGroup]:
        """Parameter groups besides the model's, each with its `lr` and `weight_decay` (None: the optimizer's)."""
        return own_parameters_of(self.loss)

    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        """Optimizers that the method itself steps in `after_step`; their parameters are in no group."""
        return {}

    @property
    def is_empty(self) -> bool:
        """Whether the last batch had no pair or tuple for the loss."""
        usage: Usage | None = getattr(self.loss, "usage", None)
        return usage is not None and usage.is_empty

    def forward_features(self, inputs: Tensor) -> FeatureOutput:
        """Embeddings and the pooled features below the head."""
        features = self.model.backbone(inputs)
        return FeatureOutput(embeddings=self.model.head(features), features=features)

    def loss_of(
        self,
        embeddings: Tensor,
        labels: Tensor,
        *,
        key: int,
        loss: nn.Module | None = None,
        triplets: Triplets | None = None,
    ) -> Tensor:
        """The loss of embeddings, by default `self.loss`; losses of other libraries take no key."""
        keyword = {"key": key} if self._takes_key else {}
        indices = () if triplets is None else (triplets,)
        return (self.loss if loss is None else loss)(embeddings, labels, *indices, **keyword)


class Method(Protocol):
    """The settings of a training method."""

    @property
    def head(self) -> HeadFactory:
        """Makes the head from the features' width and the embedding size, if any; `linear_head` for most methods."""

    def build(self, inputs: MethodInputs) -> Objective:
        """Build the objective of a run."""
