"""Small models and objectives of methods, and steps of training by hand."""

import torch
from torch import nn

from unseen.core.config import Record, build
from unseen.core.randomness import derive, seeded, torch_generator
from unseen.core.registry import REGISTRIES
from unseen.methods import MethodInputs
from unseen.models import Backbone, Embedder
from unseen.training.optimizers import Adam, parameter_groups
from unseen.training.resume import flatten_optimizer, restore_optimizer

SMALL: dict[str, Record] = {
    "uniform_prior": {"chunk": 4, "hidden": 5, "interval": 2, "lr": 1e-2},
    "s2sd": {"targets": [10, 14], "delay": 2},
    "diva": {"queue_size": 20, "decorrelation": 2.0},
}
"""Settings that fit these sizes, by method."""

CLASSES, WIDTH, EMBEDDING = 5, 6, 16
MOST_CLASSES = 16
"""Of the class vectors of a method: as many as a batch of any test has labels."""


class Linear(Backbone):
    """A backbone of two layers."""

    has_pretrained_weights = False

    def __init__(self, inputs: int, width: int = 12) -> None:
        super().__init__()
        self.width = width
        self.first = nn.Linear(inputs, 7)
        self.layers = nn.Sequential(nn.Linear(7, 7), nn.Linear(7, width))

    def forward(self, rows):
        return self.layers(self.first(rows))


def record(name, **settings):
    return {"name": name, **SMALL.get(name, {}), **settings}


def objective_of(name, *, loss="margin:miner=distance", seed=0, inputs=WIDTH, dtype=torch.float32, **settings):
    """The objective of a method over a small model."""
    method = build(REGISTRIES["method"], record(name, **settings))
    with seeded(derive(seed, "test model")):
        model = Embedder(Linear(inputs), embedding_size=EMBEDDING, head=method.head)
    known = {"num_classes": CLASSES, "seed": seed}
    method_inputs = MethodInputs(
        model=model,
        new_loss=lambda width: build(REGISTRIES["loss"], loss, known | {"embedding_size": width}),
        num_classes=MOST_CLASSES,
        example=lambda: torch.ones(1, inputs),
        seed=seed,
    )
    return method.build(method_inputs).to(dtype)


def batch(seed=0, per_class=3, classes=CLASSES, width=WIDTH):
    """Rows of a few classes that overlap, and their labels."""
    generator = torch_generator(derive(seed, "test batch"))
    labels = torch.arange(classes).repeat_interleave(per_class)
    centres = torch.randn(classes, width, generator=generator)
    return centres[labels] + 0.7 * torch.randn(len(labels), width, generator=generator), labels


def value_of(objective, inputs, labels, key=7):
    """The value of a batch, every view of it the same, and what was output."""
    output = objective(torch.cat([inputs] * objective.views), key=key)
    return objective.value(output, labels, key=key), output


def train_steps(objective, optimizer, first, last, *, one_batch=False, device="cpu"):
    """Steps of training by hand; returns their values."""
    values = []
    for step in range(first, last):
        optimizer.zero_grad(set_to_none=True)
        inputs, labels = (part.to(device) for part in batch(0 if one_batch else step))
        value, output = value_of(objective, inputs, labels, key=derive(0, "step", step))
        value.backward()
        optimizer.step()
        objective.after_step(output, key=derive(0, "step", step))
        values.append(value.item())
    return values


def optimizer_over(objective):
    return Adam(lr=1e-2).build(parameter_groups(objective))


def copy_state(first, second):
    """Put what a checkpoint would hold of (objective, optimiser) into another pair."""
    second[0].load_state_dict(first[0].state_dict())
    pairs = [(first[1], second[1])]
    pairs += [(each, second[0].optimizers()[name]) for name, each in first[0].optimizers().items()]
    for source, target in pairs:
        tensors, scalars = flatten_optimizer(source)
        restore_optimizer(target, {name: each.clone() for name, each in tensors.items()}, scalars)
