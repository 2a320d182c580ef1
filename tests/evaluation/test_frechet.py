"""Frechet distance, against closed forms, SciPy's matrix root and symmetries."""

import numpy as np
import pytest
import scipy.linalg
import torch

from unseen.core.errors import BatchError, ConfigError
from unseen.evaluation.frechet import Moments, class_means, frechet_distance, moments


def features(count, width, seed=0, scale=1.0, shift=0.0):
    return np.random.default_rng(seed).normal(size=(count, width)) * scale + shift


def by_matrix_root(one, two, ridge=0.0):
    first, second = np.cov(one.T, ddof=1), np.cov(two.T, ddof=1)
    eye = ridge * np.eye(len(first))
    root = scipy.linalg.sqrtm((first + eye) @ (second + eye))
    step = one.mean(axis=0) - two.mean(axis=0)
    return step @ step + np.trace(first) + np.trace(second) - 2 * np.trace(np.real(root))


def gaussian(mean, covariance, count=1000):
    return Moments(count, np.asarray(mean, dtype=float), np.asarray(covariance, dtype=float) * (count - 1))


@pytest.mark.parametrize(("counts", "width"), [((60, 50), 8), ((200, 30), 20), ((21, 90), 20)])
def test_it_equals_the_matrix_root_on_random_sets(counts, width):
    for seed in range(5):
        one = features(counts[0], width, seed) @ features(width, width, seed + 50)
        two = features(counts[1], width, seed + 100, scale=0.7, shift=0.3)
        expected = by_matrix_root(one, two)
        assert frechet_distance(one, two) == pytest.approx(expected, rel=1e-9)
        assert frechet_distance(moments(one), two) == pytest.approx(expected, rel=1e-9)
        assert frechet_distance(one, moments(two)) == pytest.approx(expected, rel=1e-9)


def test_the_ridge_of_the_authors_is_an_option():
    one, two = features(40, 6), features(40, 6, seed=1, scale=2.0)
    for ridge in (1e-8, 1e-2):
        expected = by_matrix_root(one, two, ridge)
        assert frechet_distance(one, two, ridge=ridge) == pytest.approx(expected, rel=1e-9)
    assert frechet_distance(one, one, ridge=1e-2) == pytest.approx(-2 * 6 * 1e-2)


def test_gaussians_with_diagonal_covariances_have_a_closed_form():
    one, two = np.array([1.0, 4.0, 0.25]), np.array([9.0, 4.0, 1.0])
    shift = np.array([3.0, 0.0, -4.0])
    found = frechet_distance(gaussian(np.zeros(3), np.diag(one)), gaussian(shift, np.diag(two)))
    assert found == pytest.approx(25 + ((np.sqrt(one) - np.sqrt(two)) ** 2).sum())
    isotropic = frechet_distance(gaussian(np.zeros(5), 4 * np.eye(5)), gaussian(np.zeros(5), 9 * np.eye(5)))
    assert isotropic == pytest.approx(5 * (2 - 3) ** 2)


@pytest.mark.parametrize("count", [5, 12, 400])
def test_a_set_is_at_distance_0_from_itself_and_a_shift_counts_its_square(count):
    rows = features(count, 12)
    shift = np.linspace(-1, 1, 12)
    assert frechet_distance(rows, rows) == pytest.approx(0, abs=1e-12)
    assert frechet_distance(rows, rows[::-1]) == pytest.approx(0, abs=1e-12)
    assert frechet_distance(rows, rows + shift) == pytest.approx(shift @ shift)
    assert frechet_distance(moments(rows), moments(rows)) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("counts", [(5, 7), (6, 200), (300, 200)])
def test_it_is_symmetric_and_rotation_does_not_matter(counts):
    one, two = features(counts[0], 16), features(counts[1], 16, seed=1, scale=3.0)
    rotation = np.linalg.qr(features(16, 16, seed=2))[0]
    found = frechet_distance(one, two)
    assert found > 1
    assert frechet_distance(two, one) == pytest.approx(found, rel=1e-12)
    assert frechet_distance(one @ rotation, two @ rotation) == pytest.approx(found, rel=1e-12)


def test_singular_covariances_are_no_trouble():
    # Sets in two planes at right angles share no direction: the traces add up.
    one, two = np.zeros((2, 50, 4))
    one[:, :2], two[:, 2:] = features(50, 2), features(50, 2, seed=1)
    one, two = one - one.mean(axis=0), two - two.mean(axis=0)
    spread = np.cov(one.T).trace() + np.cov(two.T).trace()
    assert frechet_distance(one, two) == pytest.approx(spread)
    constant = np.ones((6, 4))
    assert frechet_distance(constant, constant) == 0.0
    assert frechet_distance(constant, constant + 2) == pytest.approx(16)
    # Few rows and the moments of the same rows take different ways.
    few, others = features(5, 30), features(6, 30, seed=1)
    assert frechet_distance(moments(few), moments(others)) == pytest.approx(frechet_distance(few, others), rel=1e-9)


def test_moments_are_those_of_numpy_and_add_up_class_by_class():
    rows, classes = features(90, 5, shift=100.0), np.arange(90) % 6
    parts = [moments(rows[classes == number]) for number in range(6)]
    joined = sum(parts[1:], parts[0])
    for found in (moments(rows), joined):
        assert found.count == 90
        assert found.mean == pytest.approx(rows.mean(axis=0), rel=1e-13)
        assert found.covariance == pytest.approx(np.cov(rows.T), abs=1e-11)
    left = joined - parts[2] - parts[4]
    kept = rows[(classes != 2) & (classes != 4)]
    assert left.count == len(kept)
    assert left.mean == pytest.approx(kept.mean(axis=0), rel=1e-13)
    assert left.covariance == pytest.approx(np.cov(kept.T), abs=1e-11)


def test_one_class_mean_may_be_added_and_removed():
    means = features(8, 3)
    one = moments(means[7:])
    assert (moments(means[:7]) + one).covariance == pytest.approx(np.cov(means.T), abs=1e-13)
    assert (moments(means) - one).covariance == pytest.approx(np.cov(means[:7].T), abs=1e-13)


def test_blocks_and_types_do_not_matter(monkeypatch):
    rows, others = features(30, 4), features(9, 4, seed=1)
    classes = np.arange(30) % 7
    found, found_means = frechet_distance(rows, others), class_means(rows, classes)
    monkeypatch.setattr("unseen.evaluation.frechet._ROWS_AT_ONCE", 7)
    assert frechet_distance(torch.tensor(rows, requires_grad=True), others) == pytest.approx(found, rel=1e-13)
    assert class_means(torch.tensor(rows), classes) == pytest.approx(found_means, rel=1e-13)
    assert found_means[3] == pytest.approx(rows[classes == 3].mean(axis=0))
    assert frechet_distance(rows.astype(np.float32), others) == pytest.approx(found, rel=1e-6)


def test_small_samples_of_one_distribution_are_apart():
    # The note of the module: fewer rows, larger distance.
    found = [frechet_distance(features(n, 20), features(n, 20, seed=1)) for n in (15, 60, 2000)]
    assert found[0] > 2 * found[1] > 10 * found[2] > 0


def test_unfit_sets_are_refused():
    rows = features(5, 3)
    with pytest.raises(BatchError, match="at least two features; got 1"):
        frechet_distance(rows[:1], rows)
    with pytest.raises(BatchError, match="of the same width; got '3 and 2'"):
        frechet_distance(rows, rows[:, :2])
    with pytest.raises(BatchError, match="row 4 holds a value that is not finite"):
        frechet_distance(np.vstack([rows[:4], np.full((1, 3), np.nan)]), rows)
    with pytest.raises(BatchError, match="shape"):
        frechet_distance(rows[0], rows)
    with pytest.raises(BatchError, match="no features would remain"):
        moments(rows) - moments(rows)
    with pytest.raises(ConfigError, match="ridge must be a finite number >= 0"):
        frechet_distance(rows, rows, ridge=-1.0)
