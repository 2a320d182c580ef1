import numpy as np
import pytest
import torch
from torch import nn

from tests.helpers.objectives import batch, objective_of, value_of
from unseen.core.errors import ConfigError
from unseen.losses import Triplets
from unseen.methods import ManifoldMixup
from unseen.methods.mixup import Mix, draw_mix, stage_starts
from unseen.models import Backbone, ConvNet, sequential_steps


def mixed_value(objective, mix, inputs, labels, key=3):
    return objective.value(objective.forward_mixed(mix, inputs), labels, key=key)


def order_of(size, seed=0):
    return draw_mix(size, seed, alpha=2.0, points=1).order


@pytest.mark.parametrize("loss", ["normalized_softmax", "margin:miner=distance", "multi_similarity"])
@pytest.mark.parametrize("point", [0, 1])
def test_a_share_of_one_is_the_plain_loss(loss, point):
    inputs, labels = batch()
    objective = objective_of("mixup", loss=loss)
    expected = objective.loss_of(objective.model(inputs), labels, key=3).item()
    found = mixed_value(objective, Mix(1.0, order_of(len(labels)), point), inputs, labels)
    assert found.item() == pytest.approx(expected, abs=1e-6)


def test_softmax_has_the_cross_entropy_of_targets_mixed_in_the_same_shares():
    inputs, labels = batch()
    objective = objective_of("mixup", loss="normalized_softmax", dtype=torch.float64)
    order = order_of(len(labels))
    inputs = inputs.double()
    embeddings = objective.model(0.3 * inputs + 0.7 * inputs[order])
    logits = nn.functional.normalize(embeddings) @ nn.functional.normalize(objective.loss.proxies).T / 0.05
    one_hot = nn.functional.one_hot(labels, 5).double()
    targets = 0.3 * one_hot + 0.7 * one_hot[order]
    expected = -(targets * logits.log_softmax(1)).sum(1).mean()
    found = mixed_value(objective, Mix(0.3, order, 0), inputs, labels)
    assert found.item() == pytest.approx(expected.item(), rel=1e-10)


@pytest.mark.parametrize("point", [0, 1])
def test_the_two_sides_can_be_exchanged(point):
    inputs, labels = batch()
    objective = objective_of("mixup", loss="normalized_softmax", dtype=torch.float64)
    order = order_of(len(labels))
    one = mixed_value(objective, Mix(0.2, order, point), inputs.double(), labels)
    other = mixed_value(objective, Mix(0.8, order.argsort(), point), inputs.double(), labels)
    assert one.item() == pytest.approx(other.item(), rel=1e-10)


def test_items_of_one_class_mixed_have_one_label():
    inputs, labels = batch()
    objective = objective_of("mixup", loss="contrastive", dtype=torch.float64)
    inside = torch.arange(len(labels)).view(-1, 3).roll(1, 1).flatten()  # within each class of three
    assert torch.equal(labels[inside], labels)
    output = objective.forward_mixed(Mix(0.4, inside, 0), inputs.double())
    expected = objective.loss(output.embeddings, labels).item()
    assert objective.value(output, labels, key=0).item() == pytest.approx(expected, rel=1e-12)


def test_a_ranking_loss_counts_both_labellings_by_their_shares():
    inputs, labels = batch()
    objective = objective_of("mixup", loss="contrastive", dtype=torch.float64)
    order = order_of(len(labels))
    output = objective.forward_mixed(Mix(0.4, order, 0), inputs.double())
    parts = [objective.loss(output.embeddings, each).item() for each in (labels, labels[order])]
    found = objective.value(output, labels, key=0).item()
    assert found == pytest.approx(0.4 * parts[0] + 0.6 * parts[1], rel=1e-12)


def test_tuples_are_mined_for_each_labelling_by_itself():
    seen = []

    class Miner(nn.Module):
        def forward(self, embeddings, labels=None, *, key=None):
            seen.append((embeddings.labels.tolist(), key))
            return Triplets(*(torch.tensor([each]) for each in (0, 1, 2)))

    inputs, labels = batch()
    objective = objective_of("mixup", loss="margin")
    objective.loss.miner = Miner()
    _, output = value_of(objective, inputs, labels, key=11)
    assert [each for each, _ in seen] == [labels.tolist(), labels[output.mix.order].tolist()]
    assert seen[0][1] == 11 != seen[1][1]


def test_mixing_before_a_layer_is_mixing_what_the_layers_below_it_give():
    inputs, labels = batch()
    objective = objective_of("mixup")
    assert [objective._steps[point][0] for point in objective.points] == ["first", "layers.0", "layers.1"]
    order = order_of(len(labels))
    backbone = objective.model.backbone
    first, second = backbone.layers
    for point, below, above in ((1, [backbone.first], [first, second]), (2, [backbone.first, first], [second])):
        hidden = nn.Sequential(*below)(inputs)
        hidden = nn.Sequential(*above)(0.3 * hidden + 0.7 * hidden[order])
        found = objective.forward_mixed(Mix(0.3, order, point), inputs).embeddings
        assert torch.allclose(found, objective.model.head(hidden), atol=1e-6)


def test_shares_follow_the_beta_distribution_and_places_come_equally_often():
    mixes = [draw_mix(4, key, alpha=2.0, points=4) for key in range(2000)]
    shares = np.array([mix.share for mix in mixes])
    assert shares.mean() == pytest.approx(0.5, abs=0.02)  # 4 standard errors: 0.02
    assert shares.var() == pytest.approx(1 / 20, abs=0.005)
    counts = np.bincount([mix.point for mix in mixes], minlength=4)
    assert counts == pytest.approx([500] * 4, abs=80)  # 4 standard deviations
    assert all(sorted(mix.order.tolist()) == [0, 1, 2, 3] for mix in mixes[:50])


def test_stages_of_a_convnet_are_its_blocks_and_run_as_the_whole():
    network = ConvNet(size=16, channels=1, base=4)
    steps = sequential_steps(network, torch.ones(1, 1, 16, 16))
    assert [steps[point][0] for point in stage_starts(steps, 3)] == ["blocks.1", "blocks.2"]
    assert stage_starts(steps, 1) == [1]
    assert network.training


class Forked(Backbone):
    """A backbone whose layers do not follow each other."""

    width, has_pretrained_weights = 4, False

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(6, 4), nn.Linear(6, 4)

    def forward(self, rows):
        return self.left(rows) + self.right(rows)


def test_a_backbone_that_is_no_chain_is_refused_and_its_inputs_can_be_mixed(monkeypatch):
    monkeypatch.setattr("tests.helpers.objectives.Linear", lambda inputs: Forked())
    with pytest.raises(ConfigError, match="mixup cannot mix inside Forked.*mixup:stages=0"):
        objective_of("mixup")
    assert value_of(objective_of("mixup", stages=0), *batch())[0].isfinite()


def test_a_memory_cannot_be_mixed():
    with pytest.raises(ConfigError, match="mixup cannot mix the items of a memory"):
        objective_of("mixup", loss="cross_batch_memory:loss=contrastive")


@pytest.mark.parametrize("setting", [{"alpha": 0.0}, {"stages": -1}])
def test_settings_out_of_range_are_refused(setting):
    with pytest.raises(ConfigError, match=f"ManifoldMixup: {next(iter(setting))}"):
        ManifoldMixup(**setting)
