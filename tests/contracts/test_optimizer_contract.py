"""What every registered optimizer must do; a new one is tested here by being registered."""

import json
import math

import pytest
import torch
from torch import nn

import unseen.training
from tests.contracts.loss_cases import is_numeric, settings_of
from unseen.core import registry
from unseen.core.config import build, record_of
from unseen.core.errors import ConfigError
from unseen.training.resume import flatten_optimizer, restore_optimizer

NAMES = registry.optimizer.names()


def parameters() -> list[nn.Parameter]:
    """Two parameters; the second has a learning rate of its own in `groups_of`."""
    return [nn.Parameter(torch.tensor([1.0, -2.0, 3.0])), nn.Parameter(torch.full((2, 2), 0.5))]


def groups_of(weights: list[nn.Parameter]) -> list[dict]:
    return [{"params": weights[:1]}, {"params": weights[1:], "lr": 0.25, "weight_decay": 0.0}]


def take_steps(optimizer: torch.optim.Optimizer, weights: list[nn.Parameter], count: int) -> None:
    for _ in range(count):
        optimizer.zero_grad(set_to_none=True)
        torch.stack([(weight**2).sum() for weight in weights]).sum().backward()
        optimizer.step()


@pytest.mark.parametrize("name", NAMES)
def test_its_settings_reach_the_groups_that_state_none_of_their_own(name):
    settings = build(registry.optimizer, {"name": name, "lr": 0.125, "weight_decay": 0.5})
    first, second = settings.build(groups_of(parameters())).param_groups
    assert (first["lr"], first["weight_decay"]) == (0.125, 0.5)
    assert (second["lr"], second["weight_decay"]) == (0.25, 0.0)


@pytest.mark.parametrize("name", NAMES)
def test_it_lowers_a_convex_loss(name):
    weights = parameters()
    optimizer = build(registry.optimizer, f"{name}:lr=0.01").build([{"params": weights}])
    before = sum((weight**2).sum().item() for weight in weights)
    take_steps(optimizer, weights, 100)
    assert sum((weight**2).sum().item() for weight in weights) < before


@pytest.mark.parametrize("name", NAMES)
def test_without_gradient_and_weight_decay_nothing_moves(name):
    weights = parameters()
    optimizer = build(registry.optimizer, {"name": name, "weight_decay": 0.0}).build([{"params": weights}])
    for weight in weights:
        weight.grad = torch.zeros_like(weight)
    optimizer.step()
    assert all(map(torch.equal, weights, parameters()))


@pytest.mark.parametrize("name", NAMES)
def test_its_state_survives_a_round_trip_to_the_same_bits(name):
    settings = build(registry.optimizer, name)
    whole, parts = parameters(), parameters()
    optimizer = settings.build(groups_of(whole))
    take_steps(optimizer, whole, 10)
    interrupted = settings.build(groups_of(parts))
    take_steps(interrupted, parts, 4)
    tensors, scalars = flatten_optimizer(interrupted)
    resumed = settings.build(groups_of(parts))
    restore_optimizer(
        resumed, {key: tensor.clone() for key, tensor in tensors.items()}, json.loads(json.dumps(scalars))
    )
    take_steps(resumed, parts, 6)
    assert all(map(torch.equal, whole, parts))


@pytest.mark.parametrize("name", NAMES)
def test_its_configuration_survives_a_round_trip(name):
    record = json.loads(json.dumps(record_of(registry.optimizer, build(registry.optimizer, name))))
    assert record_of(registry.optimizer, build(registry.optimizer, record)) == record


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -1, "1", True, [1.0]], ids=str)
def test_bad_values_of_every_number_are_refused(name, bad):
    component = registry.optimizer[name]
    numbers = [setting for setting, annotation in settings_of(component).items() if is_numeric(annotation)]
    assert {"lr", "weight_decay"} <= set(numbers)
    for setting in numbers:
        with pytest.raises(ConfigError, match=f"{component.__name__}: {setting}"):
            component(**{setting: bad})


@pytest.mark.parametrize("name", NAMES)
def test_it_names_its_reference_and_is_exported(name):
    component = registry.optimizer[name]
    assert "Reference:" in component.__doc__
    assert getattr(unseen.training, component.__name__) is component
