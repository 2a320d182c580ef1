"""A check of a shift: near data are near, far data are beyond the ladder, and expected recall is near the true one."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from tests.helpers.two_groups import gaussian_catalogue
from unseen.cli.shift_check import sentences
from unseen.core.errors import DataError
from unseen.core.progress import no_progress
from unseen.shifts import Adaptation, SwapSchedule
from unseen.shifts.recall_forecast import Recall, SpreadEffect
from unseen.shifts.shift_check import DeploymentData, ShiftCheckInputs, ShiftCheckSettings, check_shift

QUICK = Adaptation(iterations={2: 5, 5: 5, 10: 5}, batch_size=16)
SCHEDULE = SwapSchedule(swaps=1, easier=6, harder=10, removals=4)


def train_and_deployed(*, moved=0.0):
    """Classes of one distribution, every fourth held out as deployment, which may be moved along an axis."""
    made = gaussian_catalogue(classes=80, per_class=12, gap=4.0, mixed=0.5)
    rows = np.asarray(made.reader.features, np.float64)
    is_held = made.labels % 4 == 3
    kept = gaussian_catalogue(classes=60, per_class=12)
    assert np.array_equal(kept.labels, np.unique(made.labels[~is_held], return_inverse=True)[1])
    deployed = rows[is_held] + np.array([0, moved, 0, 0, 0, 0])
    return kept, rows[~is_held], DeploymentData("held out", deployed, made.labels[is_held])


def check(catalogue, features, deployed, *, head=None, seen=(), progress=no_progress, **settings):
    inputs = ShiftCheckInputs(catalogue, features, deployed, head, seen)
    chosen = ShiftCheckSettings(**{"schedule": SCHEDULE, "rungs": 5, "episodes": 0, **settings})
    return check_shift(inputs, chosen, progress=progress)


def test_classes_held_out_without_a_shift_are_on_the_ladder_and_score_as_expected():
    found = check(*train_and_deployed())
    assert found.expected.place in ("below", "between")
    assert found.expected.low <= found.measured.value <= found.expected.high
    assert (found.classes, found.classes_known) == (20, True)
    # No gallery is smaller than that of the deployment data, which would be easier.
    assert all(each.recall.known >= 20 for each in found.rungs)
    assert found.shift < found.distance.value
    assert found.distance.rows == (720, 240)


def test_a_far_shift_is_beyond_the_ladder_and_nothing_is_expected():
    found = check(*train_and_deployed(moved=30.0))
    assert found.expected.place == "beyond"
    assert found.expected.value is None
    # Moving along one axis by 30 adds about its square.
    assert found.distance.value == pytest.approx(900, rel=0.1)


def test_deployment_of_fewer_images_of_a_class_is_compared_with_galleries_like_it():
    catalogue, features, deployed = train_and_deployed()
    third = np.arange(len(deployed.labels)) % 3 == 0
    found = check(catalogue, features, DeploymentData("thinned", deployed.features[third], deployed.labels[third]))
    assert (found.per_class, found.gallery) == (4, "20 classes of 4 images")
    whole = check(catalogue, features, deployed)
    assert whole.per_class == 12
    # Fewer images of a class are harder to find, on the rungs as in deployment.
    assert all(few.recall.value < all_.recall.value for few, all_ in zip(found.rungs, whole.rungs, strict=True))
    assert found.expected.low <= found.measured.value <= found.expected.high


def test_without_labels_the_distance_is_the_same_and_no_recall_is_measured():
    catalogue, features, deployed = train_and_deployed()
    labelled = check(catalogue, features, deployed)
    bare = check(catalogue, features, DeploymentData("held out", deployed.features))
    assert bare.distance == labelled.distance
    assert bare.measured is None
    assert not bare.classes_known
    stated = check(catalogue, features, DeploymentData("held out", deployed.features), classes=20)
    assert (stated.shift, stated.expected) == (labelled.shift, labelled.expected)


def test_too_few_deployment_rows_are_refused_with_how_many_would_do():
    catalogue, features, deployed = train_and_deployed()
    few = DeploymentData("few", deployed.features[:6])
    with pytest.raises(DataError, match="6 samples are too few for a distance in 6 dimensions. Use at least"):
        check(catalogue, features, few, classes=20)
    assert check(catalogue, features, few, classes=20, dimensions=2).distance.dimensions == 2
    with pytest.raises(DataError, match="has a single class, so its labels say nothing"):
        check(catalogue, features, DeploymentData("one", deployed.features, np.zeros(len(deployed.features), np.int64)))
    with pytest.raises(DataError, match="must have the same width; got '6 and 5'"):
        check(catalogue, features, DeploymentData("narrow", deployed.features[:, :5]))


def test_classes_that_a_head_was_trained_on_are_not_scored():
    catalogue, features, deployed = train_and_deployed()
    head = nn.Linear(6, 6, bias=False)
    with torch.no_grad():
        head.weight.copy_(torch.eye(6))
    plain = check(catalogue, features, deployed)
    same = check(catalogue, features, deployed, head=head)
    assert [each.recall for each in same.rungs] == [each.recall for each in plain.rungs]
    seen = catalogue.class_names[::4]
    without = check(catalogue, features, deployed, head=head, seen=seen)
    known = {each.number: each.recall.known for each in same.rungs}
    assert all(each.recall.known < known[each.number] for each in without.rungs)
    with pytest.raises(DataError, match="fewer than 2 rungs"):
        check(catalogue, features, deployed, head=head, seen=catalogue.class_names)


def test_adaptation_is_tried_on_the_rungs_nearby_and_on_labelled_deployment():
    calls = []
    found = check(
        *train_and_deployed(),
        episodes=2,
        shots=2,
        adaptation=QUICK,
        progress=lambda done, total, _: calls.append((done, total)),
    )
    assert [gain.rung for gain in found.adapted] == [*found.expected.near, None]
    assert all(gain.result.episodes == 2 for gain in found.adapted)
    assert calls == sorted(calls)
    assert calls[-1][0] == calls[-1][1]
    # Every episode is a step, so that the time left of the longest part is known.
    assert len({done for done, _ in calls}) >= 5 + 3 + 2 * len(found.adapted)


def test_what_is_said_follows_from_the_numbers():
    found = check(*train_and_deployed())
    inside = Recall(found.expected.value, 0.1, 20, found.spread)
    assert "outside of the interval" not in " ".join(sentences(replace(found, measured=inside)))
    for value, word in ((found.expected.low - 0.01, "harder"), (found.expected.high + 0.01, "easier")):
        said = sentences(replace(found, measured=replace(inside, value=value)))
        assert any(f"outside of the interval: the classes of held out are {word}" in each for each in said)
    known = SpreadEffect(slope=2.0, low=found.spread - 0.1, high=found.spread + 0.1, misfit=0.01)
    for crowded, words in (
        (known, "2.0 points of recall per 0.01"),
        (replace(known, low=found.spread + 0.05), "more crowded than any of them"),
        (replace(known, high=found.spread - 0.05), "less crowded than any of them"),
        (replace(known, slope=0.0), "not accounted for"),
        (None, "not accounted for"),
    ):
        assert any(words in each for each in sentences(replace(found, crowded=crowded)))
