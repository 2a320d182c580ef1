"""The bound on the error of float32 similarities, and products in integers."""

import numpy as np
import pytest
import torch

from unseen.evaluation.exact.directions import SCALE, read_directions
from unseen.evaluation.exact.kernels.products import integer_product
from unseen.evaluation.exact.thresholds import Side, error_bound, with_margins


def tables():
    generator = np.random.default_rng(0)
    yield generator.normal(size=(200, 512))
    # All products of one sign, and all coordinates alike: the roundings of a sum need not cancel.
    yield np.abs(generator.normal(size=(200, 2048)))
    yield np.ones((50, 3000)) + 1e-3 * generator.normal(size=(50, 3000))
    yield generator.normal(size=(100, 2))


@pytest.mark.parametrize("rows", list(tables()), ids=["normal", "positive", "nearly one", "plane"])
def test_float32_similarities_are_within_the_bound_in_any_order_of_summation(rows):
    directions = read_directions(rows)
    integers, float32 = directions.integers(), directions.float32()
    exact = (integers @ integers.T * directions.inverse_norms / SCALE).numpy()
    bound = error_bound(directions.width, directions.inverse_norms)
    assert bound < 1.1 * (directions.width + 4) * 2**-24 + 1e-6
    assert np.abs((float32 @ float32.T).numpy() - exact).max() <= bound
    # One product after the other, each rounded: the order with the largest errors.
    numbers = float32.numpy()
    one_by_one = np.cumsum(numbers[:20, None] * numbers[None, :20], axis=2, dtype=np.float32)[..., -1]
    assert np.abs(one_by_one - exact[:20, :20]).max() <= bound


def test_margins_hold_more_than_the_error():
    exact = np.sort(np.random.default_rng(1).uniform(-1, 1, size=1000)) * SCALE
    thresholds = with_margins(np.array([0, 1000]), exact, 1e-5)
    assert (thresholds.low.astype(np.float64) < exact / SCALE - 1e-5).all()
    assert (thresholds.high.astype(np.float64) > exact / SCALE + 1e-5).all()
    assert (np.diff(thresholds.low) >= 0).all()
    is_positive = thresholds.low > 0
    assert (np.diff(thresholds.bits[is_positive]) >= 0).all()
    assert (thresholds.bits[~is_positive] == -(2**31)).all()


@pytest.mark.parametrize("width", [1, 2, 3, 40])
def test_products_in_whole_numbers_are_those_of_float64(width):
    directions = read_directions(np.random.default_rng(width).normal(size=(30, width)))
    units, integers = directions.units(), directions.integers()
    side = Side(units.float32.numpy(), units.remainder_index, units.remainders, directions.inverse_norms.numpy())
    expected = integers @ integers.T
    for row in range(30):
        for column in range(30):
            found = integer_product(
                side.float32[row],
                side.float32[column],
                side.remainder_index[row],
                side.remainder_index[column],
                side.remainders,
                side.remainders,
            )
            assert found == expected[row, column].item()


def test_a_table_of_zeros_has_a_bound():
    assert 0 < error_bound(4, torch.zeros(3, dtype=torch.float64)) < 1e-6
