"""Correlation: by hand, against numpy, and where it is not defined."""

import numpy as np
import pytest
from scipy.stats import rankdata

from unseen.analyses.correlation import correlation


def test_correlation_by_hand_and_where_there_is_none():
    found = correlation([1, 2, 3, 4], [-1, -8, -27, -64])
    assert found.spearman == pytest.approx(-1)
    assert found.pearson == pytest.approx(-0.9513698)
    for first, second in (([1, 2], [3, 4]), ([1, 1, 1], [1, 2, 3]), ([1, 2, float("nan")], [1, 2, 3]), ([], [])):
        assert np.isnan(correlation(first, second).pearson)
    assert "not defined" in str(correlation([1, 2], [3, 4]))


@pytest.mark.parametrize("seed", range(5))
def test_correlation_is_that_of_numpy_and_of_ranks(seed):
    x, y = np.random.default_rng(seed).integers(0, 6, size=(2, 20)).astype(float)
    found = correlation(x.tolist(), y.tolist())
    assert found.pearson == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-12)
    assert found.spearman == pytest.approx(np.corrcoef(rankdata(x), rankdata(y))[0, 1], abs=1e-12)


def test_nearly_equal_numbers_are_correlated_without_a_warning():
    found = correlation([0.5, 0.5 + 1e-16, 0.5 - 1e-16, 0.5], [1.0, 2.0, 3.0, 4.0])
    assert found.points == 4
