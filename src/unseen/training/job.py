"""What a training run consists of, and how far it is."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from unseen.data.batches import CatalogueDataset
from unseen.methods import Objective
from unseen.samplers import Batches
from unseen.training.averaging import WeightAverage
from unseen.training.blending import Blend
from unseen.training.schedules import Schedule

Validate = Callable[[nn.Module], dict[str, float]]


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is trained, on what, and how.

    ==============  ==============================================================================================
    objective       the model, the loss and what a method adds to them
    validate        scores of the model on validation classes, called before the first step and after each epoch, so
                    that a run that only gets worse keeps its initial weights; None keeps the last weights
    choose_by       the validation score whose best epoch provides the final weights; epoch 0 is before training
    patience        epochs without a better validation score after which the run stops; None never does
    head_epochs     epochs that train the head alone, before the `epochs` that train everything
    average         moving average of the weights, validated and kept in their place
    blend           blends the final weights with those before training
    compile         whether the backbone runs compiled in training
    save_seconds    a checkpoint is written at the first step after this many seconds
    config          the configuration whose hash a checkpoint must carry
    ==============  ==============================================================================================
    """

    objective: Objective
    optimizer: torch.optim.Optimizer
    schedule: Schedule
    items: CatalogueDataset
    indices: np.ndarray
    labels: np.ndarray
    batches: Batches
    epochs: int
    seed: int
    config: dict[str, Any]
    clip_gradients: float | None = None
    autocast: bool = False
    compile: bool = False
    validate: Validate | None = None
    choose_by: str = "recall@1"
    patience: int | None = None
    head_epochs: int = 0
    average: WeightAverage | None = None
    blend: Blend | None = None
    workers: int = 0
    save_seconds: float = 30.0

    @property
    def total_steps(self) -> int:
        """The number of steps of the whole run."""
        return (self.head_epochs + self.epochs) * self.batches.batches_per_epoch


@dataclass
class State:
    """How far a run is; with the weights and the optimizers' state it is all that a checkpoint holds."""

    step: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)
    best_score: float | None = None
    best_epoch: int | None = None
    epoch_loss: float = 0.0
    empty_batches: int = 0
    blend: dict[str, Any] | None = None
