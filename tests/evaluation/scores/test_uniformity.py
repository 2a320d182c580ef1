"""Uniformity against loops and closed forms."""

import math

import numpy as np
import pytest

from tests.helpers.pair_tables import pairs_of, small_table, table_of
from unseen.evaluation.scores.pair_curves import count_pairs
from unseen.evaluation.scores.uniformity import Uniformity, uniformity


def test_uniformity_is_the_mean_over_pairs_on_200_tables():
    for number in range(200):
        rows, classes = small_table(number)
        similarity, _ = pairs_of(rows, classes)
        expected = math.log(np.mean([math.exp(-2 * (2 - 2 * value)) for value in similarity]))
        # The directions are rounded by 1e-8.
        assert Uniformity()(count_pairs(table_of(rows, classes))) == pytest.approx(expected, abs=1e-6)


def test_an_opposite_pair_is_the_most_even():
    counts = count_pairs(table_of([[0.6, 0.8, 0.1], [-0.6, -0.8, -0.1]], [0, 1]))
    assert Uniformity()(counts) == pytest.approx(-8, abs=1e-12)
    assert uniformity(counts, t=300.0) == pytest.approx(-1200)
