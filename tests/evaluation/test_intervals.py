"""The bootstrap over classes: its draws, its replicates and its intervals, against loops and closed forms."""

import numpy as np
import pytest

from unseen.core.errors import ConfigError
from unseen.evaluation.intervals import (
    Bootstrap,
    fingerprint_of,
    group_classes,
    resample_by_class,
    resample_by_jackknife,
)


def all_weights(bootstrap, classes):
    return np.concatenate(list(bootstrap.weights(classes)))


def test_every_draw_holds_as_many_classes_as_there_are():
    weights = all_weights(Bootstrap(draws=50), 7)
    assert weights.shape == (50, 7)
    assert (weights.sum(axis=1) == 7).all()
    assert len(np.unique(weights, axis=0)) > 40


def test_draws_do_not_depend_on_how_many_fit_into_a_block(monkeypatch):
    bootstrap = Bootstrap(draws=60, seed=3)
    at_once = all_weights(bootstrap, 11)
    monkeypatch.setattr("unseen.evaluation.intervals._NUMBERS_AT_ONCE", 40)
    assert np.array_equal(at_once, all_weights(bootstrap, 11))


def test_each_class_is_drawn_once_on_average():
    weights = all_weights(Bootstrap(draws=20_000), 5)
    # The count of a class is binomial with variance 0.8; four standard errors of the mean.
    assert np.abs(weights.mean(axis=0) - 1).max() < 4 * np.sqrt(0.8 / 20_000)
    assert np.abs(weights.var(axis=0) - 0.8).max() < 0.05


def test_a_replicate_is_the_mean_over_the_queries_of_the_drawn_classes():
    generator = np.random.Generator(np.random.Philox(0))
    classes = np.array([0, 0, 0, 1, 2, 2, 3, 3, 3, 3])
    values = generator.random(len(classes))
    bootstrap = Bootstrap(draws=40)
    found = bootstrap.replicates({"x": resample_by_class(values, classes, 4)}, 4)["x"]
    for weights, replicate in zip(all_weights(bootstrap, 4), found, strict=True):
        queries = [value for c in range(4) for _ in range(int(weights[c])) for value in values[classes == c]]
        assert replicate == pytest.approx(np.mean(queries), abs=1e-13)


def test_the_order_of_the_queries_does_not_matter():
    generator = np.random.Generator(np.random.Philox(1))
    classes, values = generator.integers(6, size=90), generator.random(90)
    order = generator.permutation(90)
    bootstrap = Bootstrap(draws=30)
    one = bootstrap.replicates({"x": resample_by_class(values, classes, 6)}, 6)["x"]
    two = bootstrap.replicates({"x": resample_by_class(values[order], classes[order], 6)}, 6)["x"]
    assert np.array_equal(one, two)


def test_the_interval_widens_with_the_spread_between_classes_not_with_that_inside_them():
    classes = np.repeat(np.arange(40), 10)
    bootstrap = Bootstrap(draws=500)
    inside = np.tile(np.arange(10) / 9, 40)
    between = np.repeat(np.arange(40) / 39, 10)
    widths = []
    for values in (inside, between):
        replicates = bootstrap.replicates({"x": resample_by_class(values, classes, 40)}, 40)["x"]
        low, high = bootstrap.interval(values.mean(), replicates, (0, 1))
        widths.append(high - low)
    assert widths[0] == pytest.approx(0, abs=1e-12)
    # 1.96 standard errors of the mean of 40 classes on each side.
    assert widths[1] == pytest.approx(2 * 1.96 * between.std() / np.sqrt(40), rel=0.15)


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    generator = np.random.Generator(np.random.Philox(2))
    bootstrap = Bootstrap(draws=200, confidence=0.9)
    covered = 0
    for _ in range(200):
        truth = generator.beta(2, 2, size=60)
        values = (generator.random((60, 5)) < truth[:, None]).astype(float).ravel()
        classes = np.repeat(np.arange(60), 5)
        replicates = bootstrap.replicates({"x": resample_by_class(values, classes, 60)}, 60)["x"]
        low, high = bootstrap.interval(values.mean(), replicates, (0, 1))
        covered += low <= 0.5 <= high
    # 180 expected, standard deviation 4.2.
    assert 165 <= covered <= 193


def test_intervals_stay_inside_the_bounds_of_the_score():
    bootstrap = Bootstrap(draws=100)
    low, high = bootstrap.interval(0.99, np.linspace(0.9, 1.08, 100), (0.0, 1.0))
    assert 0 <= low < 0.99 < high == 1.0


def test_one_class_gives_no_replicates():
    assert Bootstrap().replicates({"x": resample_by_class(np.ones(3), np.zeros(3, int), 1)}, 1) == {}


def test_the_fingerprint_names_class_sizes_and_not_the_order_of_rows():
    classes = np.array([0, 0, 1, 1, 1])
    rows = np.arange(5)
    own = fingerprint_of(classes, rows, rows)
    assert own == fingerprint_of(classes[[4, 0, 2, 1, 3]], rows, rows)
    assert own != fingerprint_of(np.array([0, 0, 0, 1, 1]), rows, rows)
    assert own != fingerprint_of(classes, rows[:4], rows)


@pytest.mark.parametrize("settings", [{"draws": 3}, {"confidence": 1.0}, {"seed": -1}])
def test_settings_out_of_range_are_refused(settings):
    with pytest.raises(ConfigError, match=next(iter(settings))):
        Bootstrap(**settings)


def test_leaving_out_single_classes_recovers_the_bootstrap_of_a_mean():
    generator = np.random.Generator(np.random.Philox(5))
    values = generator.random(16)
    without = np.array([np.delete(values, place).mean() for place in deal_order(16)])
    bootstrap = Bootstrap(draws=50)
    functions = {
        "linearised": resample_by_jackknife(values.mean(), without, group_classes(16)),
        "direct": resample_by_class(values, np.arange(16), 16),
    }
    found = bootstrap.replicates(functions, 16)
    assert found["linearised"] == pytest.approx(found["direct"], abs=1e-12)


def deal_order(count):
    """The class that each group holds, where every class is a group of its own."""
    return np.argsort(group_classes(count))


def test_groups_of_classes_give_about_the_spread_of_single_classes():
    generator = np.random.Generator(np.random.Philox(6))
    classes, widths = 320, []
    bootstrap = Bootstrap(draws=400)
    for _ in range(30):
        values = generator.random(classes)
        dealt = group_classes(classes)
        without = np.array([values[dealt != group].mean() for group in range(16)])
        widths.append(
            bootstrap.replicates({"x": resample_by_jackknife(values.mean(), without, dealt)}, classes)["x"].std()
        )
    # The standard error of the mean of 320 uniform numbers; 30 estimates with 15 degrees of freedom each.
    assert np.sqrt(np.mean(np.square(widths))) == pytest.approx(np.sqrt(1 / 12 / classes), rel=0.15)


def test_groups_are_of_equal_size_and_always_the_same():
    assert np.array_equal(np.bincount(group_classes(48)), np.full(16, 3))
    assert np.array_equal(group_classes(48), group_classes(48))
    assert sorted(group_classes(5)) == list(range(5))
