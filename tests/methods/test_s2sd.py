import math

import pytest
import torch
from torch.autograd import gradcheck

from tests.helpers.objectives import batch, objective_of, optimizer_over, train_steps, value_of
from tests.helpers.present import present
from unseen.core.errors import ConfigError
from unseen.core.randomness import derive, torch_generator
from unseen.methods import S2SD
from unseen.methods.s2sd import distillation, similarities


def rows(seed=0, count=5, width=3):
    return torch.randn(count, width, generator=torch_generator(seed), dtype=torch.float64)


def loop_distillation(source, target, temperature):
    total = 0.0
    for learnt, taught in zip(source.tolist(), target.tolist(), strict=True):
        p, q = ([math.exp(each / temperature) for each in row] for row in (taught, learnt))
        p, q = ([each / sum(row) for each in row] for row in (p, q))
        total += sum(each * math.log(each / other) for each, other in zip(p, q, strict=True))
    return temperature**2 * total / len(source)


@pytest.mark.parametrize("temperature", [0.2, 1.0, 5.0])
def test_distillation_equals_its_loop(temperature):
    source, target = similarities(rows(0)), similarities(rows(1))
    found = distillation(source, target, temperature).item()
    assert found == pytest.approx(loop_distillation(source, target, temperature), rel=1e-9)
    assert found > 0


def test_nothing_is_learnt_from_equal_similarities():
    source = similarities(rows()).requires_grad_()
    value = distillation(source, source.detach().clone(), 1.0)
    value.backward()
    assert value.item() == pytest.approx(0, abs=1e-12)
    assert present(source.grad).abs().max() < 1e-12
    turned = torch.linalg.qr(rows(3, 3)).Q
    elsewhere = similarities(3 * rows() @ turned)
    assert distillation(similarities(rows()), elsewhere, 1.0).item() == pytest.approx(0, abs=1e-9)


def test_no_gradient_reaches_a_target():
    source, target = rows(0).requires_grad_(), rows(1).requires_grad_()
    distillation(similarities(source), similarities(target), 1.0).backward()
    assert present(source.grad).abs().sum() > 0
    assert target.grad is None


def test_the_temperature_keeps_the_scale_of_the_gradient():
    lengths = []
    for temperature in (20.0, 200.0):
        source = similarities(rows(0)).requires_grad_()
        distillation(source, similarities(rows(1)), temperature).backward()
        lengths.append(present(source.grad).norm().item())
    assert lengths[0] == pytest.approx(lengths[1], rel=0.1)


def test_the_gradient_of_the_distillation_is_right():
    target = similarities(rows(1))
    assert gradcheck(lambda source: distillation(source, target, 0.7), similarities(rows(0)).requires_grad_())


def test_the_value_is_made_of_the_parts_that_it_states():
    inputs, labels = batch()
    objective = objective_of("s2sd", weight=3.0, feature_weight=0.0, temperature=0.5, dtype=torch.float64)
    value, output = value_of(objective, inputs.double(), labels, key=4)
    source = objective.loss_of(output.embeddings, labels, key=4)
    targets, taught = [], []
    for number, (target, loss) in enumerate(zip(output.targets, objective.target_losses, strict=True)):
        targets.append(objective.loss_of(target, labels, key=derive(4, "s2sd", number), loss=loss))
        taught.append(loop_distillation(similarities(output.embeddings), similarities(target), 0.5))
    expected = (source + sum(targets) / 2) / 2 + 3.0 * sum(taught) / 2
    assert value.item() == pytest.approx(expected.item(), rel=1e-9)
    assert [target.shape[1] for target in output.targets] == [10, 14]


def test_branches_learn_by_their_losses_only():
    inputs, labels = batch()
    gradients = []
    for weight in (0.0, 100.0):
        objective = objective_of("s2sd", weight=weight, feature_weight=weight, delay=0)
        value_of(objective, inputs, labels)[0].backward()
        gradients.append([parameter.grad for parameter in objective.branches.parameters()])
        heads = objective.model.head.weight.grad
    assert all(torch.allclose(one, other, atol=1e-7) for one, other in zip(*gradients, strict=True))
    assert heads.abs().sum() > 0


def test_pooled_features_teach_after_the_delay_and_learn_nothing_by_it():
    inputs, labels = batch()
    with_features = objective_of("s2sd", feature_weight=5.0, delay=2, weight=0.0)
    without = objective_of("s2sd", feature_weight=0.0, weight=0.0)
    differs = []
    for step in range(4):
        values = [value_of(each, inputs, labels, key=step) for each in (with_features, without)]
        differs.append(values[0][0].item() != values[1][0].item())
        with_features.after_step(values[0][1], key=step)
    assert differs == [False, False, True, True]
    value, output = values[0]
    expected = values[1][0].item() + 5 * loop_distillation(
        similarities(output.embeddings), similarities(output.features), 1.0
    )
    assert value.item() == pytest.approx(expected, rel=1e-5)


def test_one_target_is_dsd_and_every_branch_has_a_boundary_of_its_own():
    objective = objective_of("s2sd", targets=[9], loss="margin:beta_mode=global,miner=(distance)")
    assert len(objective.branches) == len(objective.target_losses) == 1
    train_steps(objective, optimizer_over(objective), 0, 3)
    boundaries = [objective.loss.boundary, objective.target_losses[0].boundary]
    assert boundaries[0] is not boundaries[1]
    assert all(boundary.item() != pytest.approx(1.2, abs=1e-6) for boundary in boundaries)


def test_the_temporary_branches_are_not_in_the_model_that_is_kept():
    objective = objective_of("s2sd")
    assert set(objective.model.state_dict()) == set(objective_of("plain").model.state_dict())


@pytest.mark.parametrize(
    "setting", [{"targets": []}, {"targets": [0]}, {"weight": -1.0}, {"feature_weight": -1.0}, {"temperature": 0.0}]
)
def test_settings_out_of_range_are_refused(setting):
    with pytest.raises(ConfigError, match=f"S2SD: {next(iter(setting))}"):
        S2SD(**setting)
