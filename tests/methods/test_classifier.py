import math

import pytest
import torch

from tests.helpers.objectives import EMBEDDING, MOST_CLASSES, batch, objective_of, optimizer_over, train_steps, value_of
from tests.helpers.small_runs import settings_for, write_features
from unseen.core.errors import ConfigError
from unseen.methods import Classifier
from unseen.runs import run
from unseen.training.optimizers import parameter_groups


def test_the_value_equals_its_loops():
    objective = objective_of("classifier", weight=0.7, smoothing=0.2, temperature=0.1)
    inputs, labels = batch()
    value, output = value_of(objective, inputs, labels)
    loss = objective.loss_of(output.embeddings, labels, key=7).item()
    vectors = objective.class_vectors.tolist()

    def cosine(one, other):
        product = sum(a * b for a, b in zip(one, other, strict=True))
        return product / math.sqrt(sum(a * a for a in one) * sum(b * b for b in other))

    total = 0.0
    for row, label in zip(output.embeddings.tolist(), labels.tolist(), strict=True):
        logits = [cosine(row, vector) / 0.1 for vector in vectors]
        norm = math.log(sum(math.exp(logit) for logit in logits))
        for number, logit in enumerate(logits):
            target = 0.8 * (number == label) + 0.2 / MOST_CLASSES
            total -= target * (logit - norm)
    assert value.item() == pytest.approx(loss + 0.7 * total / len(labels), rel=1e-5)


def test_without_weight_it_is_the_loss_and_the_model_gets_its_gradient_only():
    inputs, labels = batch()
    plain, beside = objective_of("plain"), objective_of("classifier", weight=0)
    for objective in (plain, beside):
        value_of(objective, inputs, labels)[0].backward()
    for one, other in zip(plain.model.parameters(), beside.model.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)


def test_on_features_the_head_learns_nothing_from_the_classifier():
    inputs, labels = batch()
    on = {name: objective_of("classifier", on=name, weight=5.0) for name in ("embedding", "features")}
    plain = objective_of("plain")
    for objective in (plain, *on.values()):
        value_of(objective, inputs, labels)[0].backward()
    head = plain.model.head.weight.grad
    torch.testing.assert_close(on["features"].model.head.weight.grad, head)
    assert not torch.allclose(on["embedding"].model.head.weight.grad, head)
    assert on["features"].class_vectors.shape == (MOST_CLASSES, 12)
    assert on["embedding"].class_vectors.shape == (MOST_CLASSES, EMBEDDING)


def test_the_class_vectors_have_their_own_learning_rate_and_no_weight_decay():
    group = parameter_groups(objective_of("classifier", lr=0.5, loss="triplet"))[-1]
    assert (group["lr"], group["weight_decay"]) == (0.5, 0.0)
    assert "lr" not in parameter_groups(objective_of("classifier", lr=None, loss="triplet"))[-1]


def test_training_lowers_the_value():
    objective = objective_of("classifier")
    values = train_steps(objective, optimizer_over(objective), 0, 60, one_batch=True)
    assert values[-1] < 0.7 * values[0]


@pytest.mark.parametrize("loss", ["multi_similarity", "proxy_anchor", "triplet:miner=distance"])
def test_it_works_beside_other_losses(tmp_path, loss):
    settings = settings_for(write_features(tmp_path / "features.npz"), loss, method="classifier:smoothing=0.05")
    result = run(settings, tmp_path / "run")
    assert result["protocol"]["method"]["smoothing"] == 0.05


def test_features_that_are_not_trained_are_refused(tmp_path):
    settings = settings_for(write_features(tmp_path / "features.npz"), method="classifier:on=features")
    with pytest.raises(ConfigError, match="nothing below the head is trained"):
        run(settings, tmp_path / "run")


def test_settings_out_of_range_are_refused():
    wrong = ({"weight": -1}, {"smoothing": 1.5}, {"temperature": 0}, {"on": "pixels"}, {"lr": -1})
    for settings in wrong:
        with pytest.raises(ConfigError, match="Classifier: "):
            Classifier(**settings)
