"""A threshold at a chosen false-positive rate, against loops, and how it holds on other classes."""

from dataclasses import asdict

import numpy as np
import pytest
import torch

from unseen.core.errors import BatchError, ConfigError
from unseen.evaluation.calibration import calibrate


def clustered(count=300, classes=25, width=12, seed=0, noise=0.8):
    generator = np.random.default_rng(seed)
    labels = generator.integers(classes, size=count)
    return generator.normal(size=(classes, width))[labels] + noise * generator.normal(size=(count, width)), labels


def pairs_of(rows, labels):
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    upper = np.triu_indices(len(rows), 1)
    return (units @ units.T)[upper], (labels[:, None] == labels)[upper]


@pytest.mark.parametrize("rate", [1e-3, 0.02, 0.5, 1.0])
def test_the_threshold_is_the_lowest_that_keeps_the_rate(rate):
    rows, labels = clustered()
    found = calibrate(rows, labels, false_positive_rate=rate)
    similarity, same = pairs_of(rows, labels)
    negatives = similarity[~same]
    # No pair lies within float32's rounding of this edge of a bin.
    assert np.abs(similarity - found.threshold).min() > 1e-7
    assert found.false_positive_rate == (negatives >= found.threshold).mean() <= rate
    assert found.true_positive_rate == (similarity[same] >= found.threshold).mean()
    if rate < 1:
        assert (negatives >= found.threshold - 2**-15 - 1e-6).mean() > rate


def test_held_out_rates_lie_around_the_rate_asked_for():
    found = calibrate(*clustered(count=1500, classes=150), false_positive_rate=0.01)
    low, high = found.held_out_false_positive_rate_interval
    assert 0.004 < low < found.held_out_false_positive_rate < high < 0.025
    assert low < 0.01 < high
    low, high = found.threshold_interval
    assert low < found.threshold < high < low + 0.1
    low, high = found.held_out_true_positive_rate_interval
    assert low < found.true_positive_rate < high
    assert found.splits == 100


def test_more_classes_make_the_intervals_narrower():
    def width(found):
        low, high = found.held_out_false_positive_rate_interval
        return high - low

    few = calibrate(*clustered(count=400, classes=20), false_positive_rate=0.02)
    many = calibrate(*clustered(count=1600, classes=320), false_positive_rate=0.02)
    assert width(many) < width(few) / 2


def test_the_split_is_by_class():
    # Two tight clouds of twelve classes each. Chosen where no negative pair is near, a threshold lets near ones pass.
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 6)
    rows = np.repeat(np.eye(4)[[0, 0, 1, 2]], 6, axis=0) + 0.01 * generator.normal(size=(24, 4))
    found = calibrate(rows, labels, false_positive_rate=0.05, splits=200)
    # Classes 0 and 1 coincide: all pairs of two classes pass where both are held out, none where they are apart.
    assert found.held_out_false_positive_rate_interval == (0.0, 1.0)


def test_rows_names_threads_and_lengths_do_not_matter():
    rows, labels = clustered()
    found = asdict(calibrate(rows, labels, splits=10))
    shuffled = np.random.default_rng(1).permutation(len(rows))
    names = np.array([f"class {(7 * label) % 25}" for label in labels])
    threads = torch.get_num_threads()
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            assert asdict(calibrate(4.0 * rows[shuffled], names[shuffled], splits=10)) == found
    finally:
        torch.set_num_threads(threads)


def test_another_seed_deals_the_classes_anew_but_leaves_the_threshold():
    rows, labels = clustered()
    one, two = calibrate(rows, labels), calibrate(rows, labels, seed=1)
    assert one.threshold == two.threshold
    assert one.true_positive_rate == two.true_positive_rate
    assert one.threshold_interval != two.threshold_interval


def test_nothing_passes_in_a_collapsed_model():
    found = calibrate(np.ones((20, 3)), np.arange(20) % 5)
    assert found.threshold > 1
    assert found.false_positive_rate == found.true_positive_rate == 0
    assert found.held_out_false_positive_rate_interval == found.held_out_true_positive_rate_interval == (0, 0)


def test_separated_classes_all_pass():
    labels = np.repeat(np.arange(4), 5)
    found = calibrate(np.eye(4)[labels], labels)
    assert 0 < found.threshold < 1e-4
    assert found.true_positive_rate == found.held_out_true_positive_rate == 1
    assert found.held_out_false_positive_rate == 0


def test_what_cannot_be_calibrated_is_refused():
    with pytest.raises(BatchError, match="got '3 classes'. Use at least 4 classes"):
        calibrate(np.eye(6), [0, 0, 1, 1, 2, 2])
    with pytest.raises(BatchError, match="no two images share a class"):
        calibrate(np.eye(6), list(range(6)))
    with pytest.raises(ConfigError, match="false_positive_rate must be a finite number > 0"):
        calibrate(np.eye(6), [0, 0, 1, 1, 2, 3], false_positive_rate=0)
    with pytest.raises(ConfigError, match="false_positive_rate must be a number from 0 to 1"):
        calibrate(np.eye(6), [0, 0, 1, 1, 2, 3], false_positive_rate=1.5)
    with pytest.raises(ConfigError, match="splits must be an integer >= 1"):
        calibrate(np.eye(6), [0, 0, 1, 1, 2, 3], splits=0)
