"""The moving average of the weights: its formula by a loop, and what a run validates and keeps."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from tests.helpers.small_runs import image_settings, settings_for, write_features, write_images
from unseen.evaluation import evaluate
from unseen.models import embed
from unseen.runs import load_run, run
from unseen.training import WeightAverage


def test_the_average_follows_its_formula():
    model = nn.Linear(2, 1, bias=False)
    with torch.no_grad():
        model.weight.zero_()
    average, expected = WeightAverage(model, 0.5), np.zeros(2)
    generator = np.random.default_rng(0)
    for step in range(1, 30):
        weight = generator.normal(size=2)
        with torch.no_grad():
            model.weight.copy_(torch.from_numpy(weight))
        average.update(step)
        decay = min(0.5, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * weight
        np.testing.assert_allclose(average.weights["weight"].numpy()[0], expected, rtol=1e-5, atol=1e-6)


def test_buffers_are_averaged_and_counts_are_those_of_the_last_step():
    model = nn.BatchNorm1d(3)
    average = WeightAverage(model, 0.9)
    for step in range(1, 4):
        model(torch.randn(8, 3) + 5)
        average.update(step)
    assert average.weights["num_batches_tracked"].item() == 3
    assert not torch.equal(average.weights["running_mean"], model.state_dict()["running_mean"])
    assert (average.weights["running_mean"] > 0).all()


def test_while_applied_the_model_has_the_average_and_afterwards_its_own_bits():
    model = nn.Linear(3, 2)
    average = WeightAverage(model, 0.9)
    with torch.no_grad():
        model.weight.add_(1)
    own = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(ZeroDivisionError), average.applied():
        assert torch.allclose(model.weight, own["weight"] - 1)
        raise ZeroDivisionError
    assert all(torch.equal(tensor, own[name]) for name, tensor in model.state_dict().items())


def test_a_run_trains_on_as_without_an_average_and_ends_with_the_average(tmp_path, monkeypatch):
    features = write_features(tmp_path / "features.npz")
    raw, averages = {}, {}

    class Watching(WeightAverage):
        def update(self, step):
            super().update(step)
            raw[step] = self.model.state_dict()["head.weight"].clone()
            averages[step] = self.weights["head.weight"].clone()

    monkeypatch.setattr("unseen.runs.run_recipe.WeightAverage", Watching)
    run(settings_for(features, choose_by="last"), tmp_path / "raw")
    run(settings_for(features, choose_by="last", average=0.8), tmp_path / "average")
    last = max(raw)
    assert torch.equal(load_file(tmp_path / "raw" / "model.safetensors")["head.weight"], raw[last])
    assert torch.equal(load_file(tmp_path / "average" / "model.safetensors")["head.weight"], averages[last])
    assert not torch.equal(raw[last], averages[last])


def test_the_validation_scores_are_those_of_the_averaged_weights(tmp_path):
    images = write_images(tmp_path / "images")
    settings = image_settings(images, average=0.95) | {"batch_norm": "trained"}
    result = run(settings, tmp_path / "run")
    prepared, items, model = load_run(tmp_path / "run")
    validation = prepared.split.validation
    scores = evaluate(embed(model, items, validation), prepared.catalogue.labels[validation], bootstrap=None)
    chosen = next(row for row in result["history"] if row["epoch"] == result["chosen_epoch"])
    assert scores["recall@1"] == chosen["validation"]["recall@1"]
    assert scores["map@r"] == pytest.approx(chosen["validation"]["map@r"], abs=1e-6)
    assert result["protocol"]["average"] == 0.95
