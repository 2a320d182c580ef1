"""Corrected distances are right where plain ones are far too large, and what is too small is refused."""

import numpy as np
import pytest

from unseen.core.errors import BatchError, DataError
from unseen.evaluation.frechet import frechet_distance, moments
from unseen.shifts.small_sample_distance import corrected_distance, corrected_trace, relative_kurtosis

WIDTH = 60
SPREADS = np.exp(np.linspace(1, -2, WIDTH))


def sample(generator, rows, spreads=SPREADS, shift=0.0, lengths=None):
    found = generator.normal(size=(rows, WIDTH)) * np.sqrt(spreads) + shift / np.sqrt(WIDTH)
    return found if lengths is None else found * np.sqrt(lengths)[:, None]


def mean_of(draws, rows, others=None, **second):
    generator = np.random.default_rng(0)
    found = [
        corrected_distance(sample(generator, rows), sample(generator, others or rows, **second)) for _ in range(draws)
    ]
    return np.mean([each.value for each in found]), np.mean([each.plain for each in found])


@pytest.mark.parametrize("rows", [90, 150, 600])
def test_two_samples_of_one_distribution_are_near_zero(rows):
    value, plain = mean_of(12, rows)
    assert plain > 0.08 * 600 / rows * SPREADS.sum() / 4
    assert abs(value) < 0.06 * plain + 0.1


@pytest.mark.parametrize(("rows", "others"), [(90, 90), (150, 400), (400, 150), (600, 600)])
def test_a_known_distance_is_found(rows, others):
    # Covariances on the same axes: the squared differences of their deviations; and a shift of length 3.
    spreads = SPREADS[::-1] * 1.5
    true = ((np.sqrt(SPREADS) - np.sqrt(spreads)) ** 2).sum() + 9
    value, plain = mean_of(12, rows, others, spreads=spreads, shift=3.0)
    assert value == pytest.approx(true, rel=0.05)
    assert plain > 1.05 * true


def test_lengths_that_vary_are_corrected_for_too():
    generator = np.random.default_rng(0)
    found, plain = [], []
    for _ in range(12):
        one, two = (sample(generator, 300, lengths=generator.gamma(4, 0.25, size=300)) for _ in range(2))
        made = corrected_distance(one, two)
        found.append(made.value)
        plain.append(made.plain)
    assert abs(np.mean(found)) < 0.08 * np.mean(plain)


def test_a_gaussian_has_no_tails_and_a_mixture_of_scales_has():
    generator = np.random.default_rng(0)
    plain = sample(generator, 4000)
    assert relative_kurtosis(plain, moments(plain)) == pytest.approx(1, abs=0.03)
    # Lengths squared of mean 1 and variance 1/4 multiply the fourth moment by 1.25.
    scaled = sample(generator, 20000, lengths=generator.gamma(4, 0.25, size=20000))
    assert relative_kurtosis(scaled, moments(scaled)) == pytest.approx(1.25 * (1 + 0.04), abs=0.06)
    assert relative_kurtosis(np.zeros((4, 2)), moments(np.zeros((4, 2)))) == 1


def test_one_dimension_of_many_rows_needs_no_correction():
    # d = 1: the root is that of two numbers, and the correction tends to nothing.
    assert corrected_trace(np.array([2.0]), 10_000) == pytest.approx(2, rel=1e-4)
    assert corrected_trace(np.array([0.0, 0.0]), 10) == 0


def test_the_plain_distance_is_that_of_all_rows():
    generator = np.random.default_rng(0)
    one, two = sample(generator, 200), sample(generator, 300, shift=1.0)
    found = corrected_distance(one, two)
    assert found.plain == pytest.approx(frechet_distance(one, two), rel=1e-9)
    assert (found.rows, found.dimensions) == ((200, 300), WIDTH)


def test_scale_goes_with_the_square_and_a_rotation_changes_nothing():
    generator = np.random.default_rng(0)
    one, two = sample(generator, 120), sample(generator, 120, shift=2.0)
    value = corrected_distance(one, two).value
    assert corrected_distance(1e3 * one, 1e3 * two).value == pytest.approx(1e6 * value, rel=1e-6)
    turn = np.linalg.qr(generator.normal(size=(WIDTH, WIDTH)))[0]
    assert corrected_distance(one @ turn, two @ turn).value == pytest.approx(value, rel=1e-6)


def test_few_samples_are_refused_with_what_would_do():
    generator = np.random.default_rng(0)
    with pytest.raises(
        DataError, match=r"50 samples are too few for a distance in 60 dimensions. Use at least \d+ sam"
    ):
        corrected_distance(sample(generator, 400), sample(generator, 50))
    with pytest.raises(DataError, match="1 samples are too few"):
        corrected_distance(sample(generator, 1), sample(generator, 50))


def test_fewer_dimensions_take_fewer_samples_and_are_never_farther_apart():
    generator = np.random.default_rng(0)
    one, two = sample(generator, 2000), sample(generator, 2000, shift=3.0)
    whole = corrected_distance(one, two)
    part = corrected_distance(one, two[:50], dimensions=20)
    assert part.dimensions == 20
    assert corrected_distance(one, two, dimensions=20).plain <= whole.plain
    assert corrected_distance(one, two, dimensions=500) == whole


def test_samples_of_two_widths_are_refused():
    with pytest.raises(BatchError, match="the same width"):
        corrected_distance(np.zeros((9, 2)), np.zeros((9, 3)))
