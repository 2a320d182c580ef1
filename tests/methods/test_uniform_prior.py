import math

import pytest
import torch
from torch import nn

from tests.helpers.objectives import batch, objective_of, optimizer_over, train_steps, value_of
from unseen.core.errors import ConfigError
from unseen.methods import UniformPrior
from unseen.methods.uniform_prior import discriminator_loss, in_chunks, prior_loss


def undecided(width):
    """A discriminator that returns 0.5 for everything."""
    layer = nn.Linear(width, 1)
    with torch.no_grad():
        layer.weight.zero_()
        layer.bias.zero_()
    return layer


def test_an_undecided_discriminator_costs_log_two():
    rows = torch.linspace(-3, 3, 12).view(3, 4)
    assert prior_loss(undecided(4), rows).item() == pytest.approx(math.log(2))
    assert discriminator_loss(undecided(4), rows, rows).item() == pytest.approx(2 * math.log(2))


def test_both_losses_equal_their_loops():
    layer = nn.Linear(2, 1)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[0.5, -1.0]]))
        layer.bias.fill_(0.25)
    features, uniform = torch.tensor([[1.0, 2.0], [0.0, -1.0]]), torch.tensor([[0.5, 0.5], [-1.0, 0.2]])

    def probability(row):
        return 1 / (1 + math.exp(-(0.5 * row[0] - row[1] + 0.25)))

    called = -sum(math.log(probability(row)) for row in features.tolist()) / 2
    apart = -sum(math.log(probability(row)) for row in uniform.tolist()) / 2
    apart -= sum(math.log(1 - probability(row)) for row in features.tolist()) / 2
    assert prior_loss(layer, features).item() == pytest.approx(called, rel=1e-6)
    assert discriminator_loss(layer, features, uniform).item() == pytest.approx(apart, rel=1e-6)


def test_features_are_cut_into_rows_of_a_chunk():
    features = torch.arange(24.0).view(2, 12)
    assert torch.equal(in_chunks(features, 4), torch.arange(24.0).view(6, 4))
    assert in_chunks(features.bfloat16(), 6).dtype == torch.float32


def test_the_model_learns_from_the_prior_and_the_discriminator_does_not():
    objective = objective_of("uniform_prior", weight=1.0)
    output = objective(batch()[0], key=0)
    prior_loss(objective.discriminator, in_chunks(output.features, 4)).backward()
    assert all(parameter.grad is None for parameter in objective.discriminator.parameters())
    assert all(parameter.grad.abs().sum() > 0 for parameter in objective.model.backbone.parameters())
    assert all(parameter.grad is None for parameter in objective.model.head.parameters())


def test_the_discriminators_step_leaves_the_model_and_its_gradients_alone():
    objective = objective_of("uniform_prior")
    value, output = value_of(objective, *batch())
    value.backward()
    weights = [each.detach().clone() for each in objective.model.parameters()]
    gradients = [each.grad.clone() for each in objective.model.parameters()]
    before = [each.detach().clone() for each in objective.discriminator.parameters()]
    objective.after_step(output, key=0)
    for parameter, weight, gradient in zip(objective.model.parameters(), weights, gradients, strict=True):
        assert torch.equal(parameter, weight)
        assert torch.equal(parameter.grad, gradient)
    moved = [not torch.equal(*each) for each in zip(objective.discriminator.parameters(), before, strict=True)]
    assert all(moved)
    assert all(parameter.grad is None for parameter in objective.discriminator.parameters())


def test_the_discriminator_learns_at_every_interval_only():
    objective = objective_of("uniform_prior", interval=3)
    optimizer = optimizer_over(objective)
    moved = []
    for step in range(7):
        before = objective.discriminator[0].weight.detach().clone()
        train_steps(objective, optimizer, step, step + 1)
        moved.append(not torch.equal(before, objective.discriminator[0].weight))
    assert moved == [True, False, False, True, False, False, True]


def test_the_discriminator_learns_to_tell_features_from_noise():
    objective = objective_of("uniform_prior", interval=1, weight=0.0, hidden=20)
    output = objective(batch()[0] + 5, key=0)
    for step in range(100):
        objective.after_step(output, key=step)
    features = torch.sigmoid(objective.discriminator(in_chunks(output.features, 4))).mean().item()
    uniform = torch.sigmoid(objective.discriminator(torch.linspace(-1, 1, 400).view(-1, 4))).mean().item()
    assert uniform > features + 0.3


def test_without_weight_the_value_is_the_loss():
    inputs, labels = batch()
    plain, prior = objective_of("plain"), objective_of("uniform_prior", weight=0.0)
    assert value_of(prior, inputs, labels)[0].item() == value_of(plain, inputs, labels)[0].item()


def test_a_chunk_that_does_not_divide_the_features_is_refused_with_one_that_does():
    with pytest.raises(ConfigError, match=r"chunk must divide the 12 features; got 5\. Use uniform_prior:chunk=12\."):
        objective_of("uniform_prior", chunk=5)


@pytest.mark.parametrize("setting", [{"weight": -1.0}, {"chunk": 0}, {"hidden": 0}, {"interval": 0}, {"lr": 0.0}])
def test_settings_out_of_range_are_refused(setting):
    with pytest.raises(ConfigError, match=f"UniformPrior: {next(iter(setting))}"):
        UniformPrior(**setting)
