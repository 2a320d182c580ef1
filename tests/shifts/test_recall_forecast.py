"""Expected recall: read between rungs, refused beyond them; shifts of groups of few classes are comparable."""

import numpy as np
import pytest

from tests.helpers.two_groups import gaussian_catalogue
from unseen.core.errors import DataError
from unseen.shifts.recall_forecast import (
    Recall,
    ScoredRung,
    SpreadEffect,
    chance_rate,
    forecast_recall,
    gallery_recall,
    spread_effect,
    spread_of,
    spread_of_fewer,
)
from unseen.shifts.small_sample_distance import corrected_distance


def rungs(*pairs, deviation=0.1, known=50, spread=0.5):
    return [
        ScoredRung(number, shift, shift, Recall(recall, deviation, known, spread))
        for number, (shift, recall) in enumerate(pairs, start=1)
    ]


def forecast(scored, shift, **settings):
    """The forecast; untyped, as its numbers may be None."""
    return forecast_recall(scored, shift, **settings)


def effect_of(rows, labels, **settings):
    """The effect of spread; untyped, as there may be none."""
    return spread_effect(rows, labels, **settings)


def test_between_rungs_the_recall_is_read_from_the_line():
    found = forecast(rungs((0, 0.8), (10, 0.6), (20, 0.4)), 5, classes=50)
    assert found.place == "between"
    assert found.near == (1, 2)
    assert found.value == pytest.approx(0.7)
    # On a straight line no rung is missed: only the classes of two galleries are left.
    assert found.high - found.value == pytest.approx(2.0096 * 0.1 * np.sqrt(2 / 50), rel=1e-4)


def test_a_bend_widens_the_interval():
    straight = forecast(rungs((0, 0.8), (10, 0.6), (20, 0.4)), 5, classes=50)
    bent = forecast(rungs((0, 0.8), (10, 0.75), (20, 0.4)), 5, classes=50)
    assert bent.high - bent.low > straight.high - straight.low


def test_sides_of_different_recall_at_one_distance_widen_the_interval():
    ladder = rungs((0, 0.8), (10, 0.6), (20, 0.4))
    other = Recall(0.7, 0.1, 50, 0.5)
    both = [ScoredRung(rung.number, rung.distance, rung.shift, rung.recall, other) for rung in ladder]
    found = forecast(both, 5, classes=50)
    assert found.value == pytest.approx(0.7)
    # Both rungs nearby differ by 0.1 from their other sides.
    error = np.sqrt(0.1**2 * 2 / 50 + 0.1**2 / 2)
    assert found.high - found.value == pytest.approx(2.0096 * error, rel=1e-4)


def test_nothing_is_extrapolated():
    ladder = rungs((0, 0.8), (10, 0.6), (20, 0.4))
    beyond = forecast(ladder, 20.5, classes=50)
    assert (beyond.place, beyond.near, beyond.value, beyond.low) == ("beyond", (3,), None, None)
    below = forecast(ladder, -3, classes=50)
    assert (below.place, below.near, below.value) == ("below", (1,), 0.8)
    with pytest.raises(DataError, match="at least two measured rungs; got 1"):
        forecast(ladder[:1], 5, classes=50)


def test_the_order_of_rungs_does_not_matter():
    ladder = rungs((0, 0.8), (10, 0.6), (20, 0.4))
    assert forecast(ladder[::-1], 12, classes=20) == forecast(ladder, 12, classes=20)


def test_recall_equals_a_loop_and_smaller_galleries_are_easier():
    made = gaussian_catalogue(classes=12, per_class=6, gap=0.0, mixed=0.0)
    rows, labels = made.reader.features, made.labels
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    hits = []
    for number, own in enumerate(unit):
        similarity = unit @ own
        similarity[number] = -np.inf
        hits.append(labels[similarity.argmax()] == labels[number])
    whole = gallery_recall(rows, labels)
    assert whole.value == pytest.approx(np.mean(hits))
    assert whole.known == 12
    assert gallery_recall(rows, labels, classes=3).value > whole.value
    with pytest.raises(DataError, match="at least two classes of two images"):
        gallery_recall(rows[labels == 0], labels[labels == 0])


def test_galleries_of_fewer_images_of_a_class_are_harder_and_equal_for_samples_of_any_size():
    made = gaussian_catalogue(classes=30, per_class=40, gap=0.0, mixed=0.0)
    rows, labels = made.reader.features, made.labels
    thinned = np.flatnonzero(np.arange(len(labels)) % 10 == 0)  # 4 images of each class
    few = gallery_recall(rows[thinned], labels[thinned])
    alike = gallery_recall(rows, labels, per_class=4)
    assert alike.value < gallery_recall(rows, labels).value
    # 120 queries in one case, 600 in the other: a standard deviation of the difference is 5 points.
    assert alike.value == pytest.approx(few.value, abs=0.12)
    assert gallery_recall(rows, labels, per_class=40) == gallery_recall(rows, labels)


def test_chance_explains_the_distance_of_random_groups_of_any_size():
    made = gaussian_catalogue(classes=120, per_class=10, gap=0.0, mixed=0.0)
    rows, labels = made.reader.features, made.labels
    rate = chance_rate(rows, labels)
    generator = np.random.default_rng(1)
    for count in (12, 30):
        found = []
        for _ in range(12):
            is_drawn = np.isin(labels, generator.permutation(120)[:count])
            found.append(corrected_distance(rows[~is_drawn], rows[is_drawn]).value)
        # Distances of few classes scatter widely; a rate that ignored their number would be wrong by 3 and more.
        assert np.mean(found) == pytest.approx(rate * (1 / count + 1 / (120 - count)), rel=0.5)


def test_recalls_are_corrected_to_the_spread_of_deployment_as_far_as_galleries_reach():
    ladder = rungs((0, 0.8), (10, 0.6), (20, 0.4))
    known = SpreadEffect(slope=2.0, low=0.4, high=0.6, misfit=0.0)
    for spread, value in ((0.5, 0.7), (0.45, 0.6), (0.55, 0.8), (0.3, 0.5), (0.9, 0.9)):
        assert forecast(ladder, 5, classes=50, spread=spread, effect=known).value == pytest.approx(value)
    # Sides that differ only because one is more crowded do not widen the interval.
    crowded_side = Recall(0.6, 0.1, 50, 0.4)
    first = ScoredRung(1, 0, 0, Recall(0.8, 0.1, 50, 0.5), crowded_side)
    second = ScoredRung(2, 10, 10, Recall(0.8, 0.1, 50, 0.5), crowded_side)
    plain = forecast(rungs((0, 0.8), (10, 0.8)), 5, classes=50)
    same = forecast([first, second], 5, classes=50, spread=0.5, effect=known)
    assert (same.value, same.low) == pytest.approx((plain.value, plain.low))
    assert forecast([first, second], 5, classes=50).low < same.low
    doubtful = SpreadEffect(slope=2.0, low=0.4, high=0.6, misfit=0.05)
    found = forecast([first, second], 5, classes=50, spread=0.5, effect=doubtful)
    assert found.value - found.low == pytest.approx(2.0096 * np.sqrt(0.1**2 * 2 / 50 + 0.05**2), rel=1e-4)


def test_spread_equals_a_loop_and_is_brought_to_another_number_of_classes():
    made = gaussian_catalogue(classes=40, per_class=50, gap=0.0, mixed=0.0)
    rows, labels = made.reader.features.astype(np.float64), made.labels
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    mean = unit.mean(axis=0)
    assert spread_of(rows * 3) == pytest.approx(np.mean([((row - mean) ** 2).sum() for row in unit]))
    own = [unit[labels == label] for label in range(40)]
    slow = np.mean([((each - each.mean(axis=0)) ** 2).sum(axis=1).mean() for each in own])
    within = spread_of(rows, labels)
    assert within == pytest.approx(slow)
    # Over random groups of 4 classes the mean spread is what the rule says; without it 0.8 of the difference is missed.
    generator = np.random.default_rng(0)
    small = [spread_of(rows[np.isin(labels, generator.permutation(40)[:4])]) for _ in range(300)]
    whole = spread_of(rows)
    brought = spread_of_fewer(whole, within, classes=40, fewer=4)
    assert np.mean(small) == pytest.approx(brought, abs=0.2 * (whole - brought))
    assert spread_of_fewer(whole, within, classes=40, fewer=40) == pytest.approx(whole)


def test_crowded_classes_have_less_spread_and_less_recall():
    generator = np.random.default_rng(0)
    # Two crowds: 30 classes far from each other, 30 near each other.
    centres = np.concatenate(
        [generator.normal(0, 2, (30, 16)), [3.0] + [0.0] * 15 + generator.normal(0, 0.7, (30, 16))]
    )
    labels = np.repeat(np.arange(60), 12)
    rows = centres[labels] + generator.normal(size=(720, 16))
    found = effect_of(rows, labels, classes=20)
    assert found.slope > 0
    near, far = (gallery_recall(rows[side], labels[side], classes=20) for side in (labels >= 30, labels < 30))
    assert near.spread < far.spread
    assert near.value < far.value
    # The line explains most of what makes the two unlike.
    assert abs((far.value - near.value) - found.slope * (far.spread - near.spread)) < 0.5 * (far.value - near.value)


def test_an_effect_of_spread_is_not_read_from_too_few_classes_or_from_noise():
    generator = np.random.default_rng(1)
    labels = np.repeat(np.arange(20), 6)
    noise = generator.normal(size=(120, 200))
    assert effect_of(noise, labels, classes=19) is None
    assert effect_of(noise, labels, classes=10).slope == 0
    # Classes of a single image have nothing to find.
    singles = np.concatenate([noise, generator.normal(size=(30, 200))])
    assert effect_of(singles, np.concatenate([labels, np.arange(20, 50)]), classes=19) is None
