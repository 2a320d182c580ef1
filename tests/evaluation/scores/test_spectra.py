"""Singular values and what is said of them, against NumPy's decomposition, closed forms and symmetries."""

import math

import numpy as np
import pytest
import torch

import unseen.evaluation.scores.spectra as spectra
from unseen.core.errors import ConfigError
from unseen.evaluation.exact.directions import read_directions
from unseen.evaluation.scores.spectra import class_spectra, reverse_decay, singular_values, spectral_decay


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def decaying(count, width, decay, seed=0):
    """Rows whose dimensions shrink by powers of ten, to 10^-decay."""
    generator = np.random.default_rng(seed)
    rotation = np.linalg.qr(generator.normal(size=(width, width)))[0]
    return generator.normal(size=(count, width)) * 10 ** -np.linspace(0, decay, width) @ rotation


@pytest.fixture(params=["decomposed", "gram"])
def way(request, monkeypatch):
    if request.param == "gram":
        monkeypatch.setattr(spectra, "_NUMBERS_TO_DECOMPOSE", 0)
        monkeypatch.setattr(spectra, "_ROWS_AT_ONCE", 7)
    return request.param


@pytest.mark.usefixtures("way")
def test_singular_values_are_those_of_the_unit_vectors():
    rows = decaying(200, 12, 3)
    # Rounding of the directions: 1e-8 of the largest.
    assert singular_values(read_directions(rows)) == pytest.approx(
        np.linalg.svd(unit(rows), compute_uv=False), abs=2e-7
    )


def test_the_gram_matrix_keeps_ten_digits_of_values_near_a_thousandth(monkeypatch):
    directions = read_directions(decaying(300, 10, 3))
    exact = np.linalg.svd(directions.integers().numpy() / 2.0**26, compute_uv=False)
    monkeypatch.setattr(spectra, "_NUMBERS_TO_DECOMPOSE", 0)
    assert singular_values(directions) == pytest.approx(exact, rel=1e-10, abs=0)


@pytest.mark.usefixtures("way")
def test_what_only_rounding_can_have_made_is_zero():
    rows = np.random.default_rng(0).normal(size=(50, 3)) @ np.random.default_rng(1).normal(size=(3, 8))
    values = singular_values(read_directions(rows))
    assert (values[:3] > 0.1).all()
    assert (values[3:] == 0).all()


@pytest.mark.usefixtures("way")
def test_the_order_of_the_rows_and_the_threads_do_not_matter_to_the_last_bit():
    rows = decaying(300, 16, 2)
    rows[:10] = rows[10:20]
    found = singular_values(read_directions(rows))
    shuffled = rows[np.random.default_rng(4).permutation(300)]
    threads = torch.get_num_threads()
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            assert (singular_values(read_directions(shuffled)) == found).all()
    finally:
        torch.set_num_threads(threads)


def test_fewer_rows_than_dimensions_leave_zeros():
    values = singular_values(read_directions(np.eye(5)[:2]))
    assert values.tolist() == [1, 1, 0, 0, 0]


def test_an_orthonormal_frame_does_not_decay():
    values = singular_values(read_directions(np.concatenate([np.eye(6), -np.eye(6)])))
    for decay in (spectral_decay(values), spectral_decay(values, k=3), reverse_decay(values)):
        assert decay == pytest.approx(0, abs=1e-15)


def decay_by_loops(values, k):
    left = list(values)[k - 1 :]
    total = 0.0
    for value in left:
        total += (1 / len(left)) * math.log((1 / len(left)) / max(value / sum(left), 1e-12))
    return total


@pytest.mark.parametrize("k", [1, 2, 5])
def test_the_decay_is_the_divergence_summed_by_hand(k):
    values = np.sort(np.random.default_rng(0).exponential(size=9))[::-1]
    assert spectral_decay(values, k=k) == pytest.approx(decay_by_loops(values, k), abs=1e-13)
    shares = values / values.sum()
    expected = sum(share * math.log(share * 9) for share in shares)
    assert reverse_decay(values) == pytest.approx(expected, abs=1e-13)


def test_a_collapsed_table_has_fully_decayed():
    values = singular_values(read_directions(np.ones((30, 4))))
    assert spectral_decay(values) == pytest.approx(-math.log(4) - 0.75 * math.log(1e-12))
    assert reverse_decay(values) == pytest.approx(math.log(4))
    # Behind the only value nothing is left: every share is at its floor.
    assert spectral_decay(values, k=2) == pytest.approx(-math.log(3) - math.log(1e-12))
    assert spectral_decay(values, k=4) == pytest.approx(-math.log(1e-12))


def test_no_value_left_is_no_decay():
    assert spectral_decay(np.ones(3), k=4) == 0.0


def test_zeros_have_no_spectrum():
    values = singular_values(read_directions(np.zeros((3, 2))))
    assert values.tolist() == [0, 0]
    assert spectral_decay(values) > 20
    assert reverse_decay(values) == pytest.approx(math.log(2))


def test_length_and_rotation_do_not_matter():
    rows = decaying(100, 6, 1)
    rotation = np.linalg.qr(np.random.default_rng(3).normal(size=(6, 6)))[0]
    before = spectral_decay(singular_values(read_directions(rows)))
    after = spectral_decay(singular_values(read_directions(5 * rows @ rotation)))
    assert after == pytest.approx(before, abs=1e-7)  # the rotated table is rounded anew


def test_the_scores_are_the_functions():
    values = singular_values(read_directions(decaying(60, 5, 1)))
    assert spectra.Rho()(values) == spectral_decay(values)
    assert spectra.RhoAt2()(values) == spectral_decay(values, k=2) != spectral_decay(values)
    assert spectra.RhoReverse()(values) == reverse_decay(values)


def test_class_spectra_equal_one_decomposition_a_class():
    rows = decaying(60, 5, 1)
    classes = np.random.default_rng(0).integers(4, size=60)
    found = class_spectra(read_directions(rows), classes, first=3)
    for number in range(4):
        values = np.linalg.svd(unit(rows[classes == number]), compute_uv=False)
        assert found.classes[number] == pytest.approx((values / values.sum())[:3], abs=1e-7)
    assert found.mean == pytest.approx(found.classes.mean(axis=0))


def test_class_spectra_of_short_classes_are_padded_or_all_are_cut():
    rows = np.concatenate([np.eye(4), np.eye(4)[:2]])
    classes = np.array([0, 0, 0, 0, 1, 1])
    padded = class_spectra(read_directions(rows), classes)
    assert padded.classes.shape == (2, 35)
    assert padded.classes[0, :5].tolist() == [0.25, 0.25, 0.25, 0.25, 0]
    assert padded.classes[1, :3].tolist() == [0.5, 0.5, 0]
    assert padded.classes.sum(axis=1).tolist() == [1, 1]
    cut = class_spectra(read_directions(rows), classes, short="truncate")
    assert cut.classes.tolist() == [[0.25, 0.25], [0.5, 0.5]]


def test_a_class_of_identical_points_has_one_value_and_a_class_of_zeros_none():
    rows = np.array([[3.0, 4.0, 1.0]] * 3 + [[0.0, 0.0, 0.0]] * 2)
    found = class_spectra(read_directions(rows), np.array([0, 0, 0, 1, 1]), first=2)
    assert found.classes.tolist() == [[1, 0], [0, 0]]


def test_impossible_settings_are_refused():
    directions = read_directions(np.eye(2))
    with pytest.raises(ConfigError, match="first must be an integer >= 1"):
        class_spectra(directions, np.array([0, 1]), first=0)
    with pytest.raises(ConfigError, match="short must be one of"):
        class_spectra(directions, np.array([0, 1]), short="drop")  # type: ignore[arg-type] # refused while it runs too


def test_leaving_out_groups_gives_the_values_of_the_other_rows():
    generator = np.random.default_rng(7)
    directions = read_directions(generator.normal(size=(60, 6)))
    groups = np.arange(60) % 4
    for group, values in enumerate(spectra.singular_values_without(directions, groups, 4)):
        expected = spectra.singular_values(directions.take(np.flatnonzero(groups != group)))
        assert values == pytest.approx(expected, abs=1e-7)
