import pytest
import torch
from torch import nn

from tests.helpers.objectives import EMBEDDING, batch, objective_of, optimizer_over, train_steps, value_of
from tests.helpers.present import present
from unseen.core.errors import ConfigError
from unseen.methods import DiVA
from unseen.methods.diva import HEADS, correlation, reverse_gradient


def test_a_reversed_gradient_is_the_opposite_of_the_plain_one():
    values = torch.tensor([1.0, -2.0], requires_grad=True)
    reversed_values = reverse_gradient(values)
    assert torch.equal(reversed_values, values)
    (reversed_values**2).sum().backward()
    assert present(values.grad).tolist() == [-2.0, 4.0]


def plain_correlation(target, source, regressor):
    predicted = nn.functional.normalize(regressor(source))
    return (target * predicted).square().mean()


def test_the_correlation_has_the_plain_gradient_for_the_regressor_and_the_opposite_for_embeddings():
    rows, _ = batch()
    values, gradients = [], []
    for function in (plain_correlation, correlation):
        regressor = nn.Linear(6, 6)
        with torch.no_grad():
            regressor.weight.copy_(torch.eye(6).roll(1, 0) + 0.1)
            regressor.bias.zero_()
        target, source = (nn.functional.normalize(each).requires_grad_() for each in (rows, rows.roll(1, 0)))
        value = function(target, source, regressor)
        value.backward()
        slopes = [present(each.grad) for each in (target, source, regressor.weight)]
        values.append(value.item())
        gradients.append(slopes)
    assert values[1] == pytest.approx(values[0], rel=1e-5)
    plain, found = gradients
    assert torch.allclose(found[0], -plain[0], atol=1e-6)
    assert torch.allclose(found[1], -plain[1], atol=1e-6)
    assert torch.allclose(found[2], plain[2], atol=1e-6)
    assert plain[2].abs().max() > 1e-4


def test_regressors_learn_to_raise_the_correlation():
    objective = objective_of("diva", decorrelation=5.0, self_weight=0.0)
    _, output = value_of(objective, *batch())
    heads = [nn.functional.normalize(head.detach()) for head in output.heads]

    def found():
        return plain_correlation(heads[0], heads[1], objective.regressors["shared"]).item()

    before = found()
    optimizer = torch.optim.Adam(objective.regressors.parameters(), lr=1e-2)
    for _ in range(10):
        optimizer.zero_grad()
        (-correlation(heads[0], heads[1], objective.regressors["shared"])).backward()
        optimizer.step()
    assert found() > before


def test_the_evaluated_embedding_is_the_weighed_heads_side_by_side_at_length_one():
    objective = objective_of("diva", head_weights=[0.5, 1.5])
    inputs, _ = batch()
    embedding = objective.model(inputs)
    heads = objective.model.head.outputs(objective.model.backbone(inputs))
    weights = (0.5, 1.5, 1.5, 1.5)
    expected = torch.cat([nn.functional.normalize(head) * w for head, w in zip(heads, weights, strict=True)], dim=1)
    assert embedding.shape == (len(inputs), EMBEDDING)
    assert len(heads) == len(HEADS)
    assert torch.allclose(embedding, nn.functional.normalize(expected), atol=1e-6)
    assert torch.allclose(embedding.norm(dim=1), torch.ones(len(inputs)))


@pytest.mark.parametrize("momentum", [0.0, 0.9, 1.0])
def test_the_key_model_is_the_running_average_of_the_model(momentum):
    objective = objective_of("diva", momentum=momentum)
    expected = [parameter.detach().clone() for parameter in objective.model.parameters()]
    optimizer = optimizer_over(objective)
    for step in range(3):
        train_steps(objective, optimizer, step, step + 1)
        for average, parameter in zip(expected, objective.model.parameters(), strict=True):
            average.mul_(momentum).add_(parameter.detach(), alpha=1 - momentum)
    for average, found in zip(expected, objective.key_model.parameters(), strict=True):
        assert torch.allclose(average, found, atol=1e-6)
        assert not found.requires_grad
    moved = [not torch.equal(*each) for each in zip(expected, objective.model.parameters(), strict=True)]
    assert any(moved) == (momentum > 0)


def test_keys_belong_to_their_queries_and_enter_the_queue_after_the_step():
    objective = objective_of("diva", queue_size=100)
    inputs, labels = batch()
    own = objective.model.head.outputs(objective.model.backbone(inputs))[HEADS.index("self")]
    value, output = value_of(objective, inputs, labels)
    # The key model starts as the model, and here both views are the same.
    assert torch.allclose(output.keys, nn.functional.normalize(own), atol=1e-6)
    assert not output.keys.requires_grad
    assert len(objective.queue.content()) == 0
    value.backward()
    objective.after_step(output, key=0)
    assert torch.equal(objective.queue.content(), output.keys)


def test_every_head_learns_by_its_own_part():
    inputs, labels = batch()
    size = EMBEDDING // len(HEADS)
    parts = {"shared": "shared_weight", "intra": "intra_weight", "self": "self_weight"}
    for name, setting in parts.items():
        off = {each: 0.0 for each in parts.values()} | {setting: 1.0, "decorrelation": 0.0, "temperature": 1.0}
        objective = objective_of("diva", **off)
        objective.queue.put(torch.eye(size))
        value_of(objective, inputs, labels)[0].backward()
        lengths = objective.model.head.linear.weight.grad.view(len(HEADS), -1).norm(dim=1)
        learns = {HEADS[place] for place in range(len(HEADS)) if lengths[place] > 0}
        assert learns == {"discriminative", name}


def test_decorrelation_teaches_all_heads():
    objective = objective_of("diva", shared_weight=0.0, intra_weight=0.0, self_weight=0.0)
    value_of(objective, *batch())[0].backward()
    lengths = objective.model.head.linear.weight.grad.view(len(HEADS), -1).norm(dim=1)
    assert (lengths > 0).all()
    assert all(parameter.grad.abs().sum() > 0 for parameter in objective.regressors.parameters())


def test_each_loss_has_a_boundary_of_its_own():
    objective = objective_of("diva", loss="margin:beta_mode=global,miner=(distance)")
    before = [each.boundary.item() for each in (objective.loss, objective.shared_loss, objective.intra_loss)]
    assert before == [pytest.approx(1.2)] * 3
    assert len({id(each.boundary) for each in (objective.loss, objective.shared_loss, objective.intra_loss)}) == 3


def test_a_loss_without_tuples_and_a_width_that_four_cannot_share_are_refused():
    with pytest.raises(ConfigError, match="diva mines its own triplets .* got 'ProxyAnchor'"):
        objective_of("diva", loss="proxy_anchor")
    with pytest.raises(ConfigError, match="the embedding size must be a multiple of four, one part per head; got 30"):
        DiVA().head(12, 30)
    with pytest.raises(ConfigError, match="the embedding size must be a multiple of four, one part per head; got None"):
        DiVA().head(12, None)


@pytest.mark.parametrize(
    "setting",
    [
        {"decorrelation": -1.0},
        {"shared_weight": -1.0},
        {"shared_mining": "hard"},
        {"queue_size": 0},
        {"momentum": 1.5},
        {"temperature": 0.0},
        {"weight_axis": "keys"},
        {"head_weights": [1.0]},
        {"head_weights": [1.0, 0.0]},
    ],
)
def test_settings_out_of_range_are_refused(setting):
    with pytest.raises(ConfigError, match=f"DiVA: {next(iter(setting))}"):
        DiVA(**setting)
