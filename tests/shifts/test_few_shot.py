"""Adaptation moves the last layer alone, asks the same queries before and after, and gains where it can."""

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn
from torch.nn.functional import normalize

from tests.helpers.two_groups import gaussian_catalogue, ladder_source, start_of
from unseen.core.errors import ConfigError, DataError
from unseen.core.randomness import derive
from unseen.data import CatalogueDataset
from unseen.evaluation import evaluate
from unseen.miners.distance import DistanceWeighted
from unseen.models import Backbone, Embedder
from unseen.shifts import (
    Adaptation,
    FewShotSettings,
    LadderSettings,
    SwapSchedule,
    build_ladder,
    few_shot,
    few_shot_on_rung,
    split_of_rung,
)
from unseen.shifts.episodes import draw_support, support_and_queries
from unseen.shifts.few_shot import Estimate, adapt_head, class_members, draw_batch

QUICK = Adaptation(iterations={2: 40, 5: 40, 10: 40}, lr=0.02, batch_size=24)


def noisy_classes(classes=12, per_class=14, signal=6, noise=30, seed=0):
    """Classes that differ in a few directions, under louder noise in many others, which a head can learn to drop."""
    generator = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes), per_class)
    centres = generator.normal(size=(classes, signal))
    kept = centres[labels] + 0.3 * generator.normal(size=(len(labels), signal))
    features = np.concatenate([kept, 0.7 * generator.normal(size=(len(labels), noise))], axis=1)
    return torch.from_numpy(features.astype(np.float32)), np.array([f"class {label:02d}" for label in labels])


@pytest.fixture
def head():
    made = nn.Linear(36, 36, bias=False)
    with torch.no_grad():
        made.weight.copy_(torch.eye(36))
    return made


def support_for(names):
    found, counts = np.unique(names, return_counts=True)
    return draw_support(dict(zip(found.tolist(), counts.tolist(), strict=True)))


def adapted_scores(features, names, head, support=None, **settings):
    """`few_shot` with the support of these classes."""
    chosen = FewShotSettings(**{"adaptation": QUICK, **settings})
    return few_shot(features, names, head, support_for(names) if support is None else support, chosen)


@pytest.mark.parametrize("shots", [2, 5])
def test_no_steps_reproduce_the_zero_shot_scores(head, shots):
    features, names = noisy_classes()
    still = Adaptation(iterations={2: 0, 5: 0, 10: 0})
    found = adapted_scores(features, names, head, shots=shots, adaptation=still, episodes=3)
    for gain in found.gains.values():
        assert gain.zero_shot == gain.few_shot
        assert gain.share == Estimate(0, 0, 0)
    assert list(found.gains) == ["recall@1", "map@1000"]


def test_zero_shot_scores_are_those_of_the_queries_alone(head):
    features, names = noisy_classes()
    support = support_for(names)
    queries = np.concatenate(
        [
            support_and_queries(support[name], np.flatnonzero(names == name), shots=5, episode=0)[1]
            for name in np.unique(names)
        ]
    )
    alone = evaluate(head(features[queries]).detach(), names[queries], scores="recall@1", bootstrap=None)
    found = adapted_scores(features, names, head, support, shots=5, episodes=1)
    assert found.gains["recall@1"].zero_shot == Estimate(alone["recall@1"], None, None)


def test_adaptation_gains_where_noise_can_be_dropped_and_leaves_the_head_as_it_was(head):
    features, names = noisy_classes()
    before = copy.deepcopy(head.state_dict())
    kept = features.clone()
    found = adapted_scores(features, names, head, shots=10, episodes=4)
    gain = found.gains["map@1000"]
    assert gain.few_shot.mean > gain.zero_shot.mean
    assert gain.share.low > 0
    assert (found.episodes, found.classes, found.left_out, found.distance) == (4, 12, 0, None)
    assert torch.equal(head.weight, before["weight"])
    assert head.weight.grad is None
    assert torch.equal(features, kept)


def test_the_same_seed_gives_the_same_numbers(head):
    features, names = noisy_classes()
    settings = {"shots": 2, "episodes": 2}
    first = adapted_scores(features, names, head, **settings)
    assert adapted_scores(features, names, head, **settings) == first
    assert adapted_scores(features, names, head, **settings, seed=1) != first


def test_classes_too_small_for_the_shots_are_left_out_and_counted(head):
    features, names = noisy_classes(per_class=12)
    few = np.concatenate([np.arange(4), np.arange(12, len(names))])
    found = adapted_scores(features[few], names[few], head, shots=5, episodes=1)
    assert (found.classes, found.left_out) == (11, 1)
    with pytest.raises(DataError, match="fewer than 2 test classes have images for 10 shots and 2 queries"):
        small = np.tile([True] * 6 + [False] * 6, 12)
        adapted_scores(features[small], names[small], head, shots=10)


def test_what_cannot_be_asked_is_refused(head):
    features, names = noisy_classes()
    with pytest.raises(ConfigError, match="shots must be one of 2, 5, 10"):
        FewShotSettings(shots=3)
    with pytest.raises(DataError, match="the ladder holds 10 episodes; got 11"):
        adapted_scores(features, names, head, shots=2, episodes=11)
    with pytest.raises(DataError, match="no last layer to adapt"):
        adapted_scores(features, names, nn.Identity(), shots=2)
    with pytest.raises(ConfigError, match="Adaptation: lr"):
        Adaptation(lr=0)


class BatchNormed(Backbone):
    width, has_pretrained_weights = 5, False

    def __init__(self) -> None:
        super().__init__()
        self.normalisation = nn.BatchNorm1d(5)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.normalisation(rows)


def test_a_model_is_adapted_on_a_rung_and_its_backbone_is_not_touched():
    catalogue = gaussian_catalogue(per_class=8, width=5)
    schedule = SwapSchedule(swaps=2, easier=0, harder=3, removals=1)
    settings = LadderSettings(schedule=schedule, rungs=3)
    ladder = build_ladder(ladder_source(catalogue), start_of(catalogue), settings)
    split = split_of_rung(ladder, catalogue, 3)
    model: Any = Embedder(BatchNormed(), embedding_size=4)
    with torch.no_grad():
        model.head.weight.copy_(torch.eye(5)[:4])
        model.head.bias.zero_()
    before = copy.deepcopy(model.state_dict())
    items = CatalogueDataset(catalogue)
    found = few_shot_on_rung(model, items, split, ladder, FewShotSettings(shots=2, adaptation=QUICK, episodes=2))
    assert found.distance == ladder.rungs[2].class_distance
    assert found.classes == split.classes["test"]
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    features = model.backbone.eval()(torch.from_numpy(catalogue.reader.features[split.test])).detach()
    names = np.array(catalogue.class_names)[catalogue.labels[split.test]]
    again = adapted_scores(features, names, model.head, ladder.support, shots=2, episodes=2)
    assert replace(again, distance=found.distance) == found


def test_an_interval_is_students():
    values = [0.5, 0.6, 0.55, 0.7]
    found = Estimate.of(values)
    low, high = stats.t.interval(0.95, 3, loc=np.mean(values), scale=stats.sem(values))
    assert (found.low, found.high) == pytest.approx((low, high))
    assert Estimate.of([0.4]) == Estimate(0.4, None, None)


def test_a_head_learns_on_its_support(head):
    features, names = noisy_classes()
    labels = np.unique(names, return_inverse=True)[1].astype(np.int64)
    adapted: Any = adapt_head(head, features, labels, iterations=30, adaptation=QUICK, seed=0)
    # The noise is turned down against the signal.
    share = (adapted.weight[:, 6:].square().sum() / adapted.weight[:, :6].square().sum()).item()
    assert share < 0.8 * 30 / 6
    assert not adapted.training


def test_a_batch_has_two_images_of_each_of_its_classes_and_no_image_twice():
    labels = np.repeat(np.arange(70), 5)[np.random.default_rng(0).permutation(350)]
    members = class_members(labels)
    shown = set()
    for step in range(200):
        rows = draw_batch(members, 112, step)
        assert len(set(rows)) == 112
        assert set(np.unique(labels[rows], return_counts=True)[1]) == {2}
        shown |= set(rows.tolist())
    assert shown == set(range(350))
    assert np.array_equal(draw_batch(members, 112, 3), draw_batch(members, 112, 3))


@pytest.mark.parametrize(("classes", "images", "each"), [(10, 5, 5), (20, 10, 5), (30, 2, 2), (56, 10, 2)])
def test_few_classes_all_come_with_as_many_images_as_fit(classes, images, each):
    labels = np.repeat(np.arange(classes), images)
    rows = draw_batch(class_members(labels), 112, 0)
    assert np.bincount(labels[rows]).tolist() == [each] * classes


def test_adaptation_equals_a_plain_loop_of_adam_over_the_same_batches(head):
    features, names = noisy_classes()
    labels = np.unique(names, return_inverse=True)[1].astype(np.int64)
    adapted: Any = adapt_head(head, features, labels, iterations=12, adaptation=QUICK, seed=5)
    weight, first, second = head.weight.detach().double(), 0.0, 0.0
    for step in range(12):
        rows = draw_batch(class_members(labels), QUICK.batch_size, derive(5, "few-shot batch", step))
        own = weight.clone().requires_grad_(True)
        unit = normalize(features[rows].double() @ own.T)
        key = derive(5, "few-shot mining", step)
        mined = DistanceWeighted()(unit.detach(), torch.from_numpy(labels[rows]), key=key)
        near, far = ((unit[mined.anchor] - unit[others]).norm(dim=1) for others in (mined.positive, mined.negative))
        brackets = torch.cat([near - QUICK.beta + 0.2, QUICK.beta - far + 0.2]).relu()
        (brackets.sum() / (brackets > 0).sum().clamp(min=1)).backward()
        first, second = 0.9 * first + 0.1 * own.grad, 0.999 * second + 0.001 * own.grad**2
        scaled = (second / (1 - 0.999 ** (step + 1))).sqrt() + 1e-8
        weight = weight - QUICK.lr * first / (1 - 0.9 ** (step + 1)) / scaled
    # Float32 against float64; a first step of Adam has the size of the learning rate whatever the gradient's.
    assert torch.allclose(adapted.weight.detach().double(), weight, atol=QUICK.lr * 0.02)
