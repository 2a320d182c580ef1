import numpy as np
import pytest

from unseen.core.errors import ConfigError
from unseen.samplers import FrechetMatching
from unseen.samplers.frd import frechet_costs


def data(rows=40, width=6, seed=0):
    generator = np.random.default_rng(seed)
    return generator.normal(size=(rows, width)) @ generator.normal(size=(width, width)), generator


def root_of(matrix):
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(np.clip(values, 0, None))) @ vectors.T


def slow_cost(big, part):
    """The definition, with roots of d x d matrices."""
    first, second = np.cov(big, rowvar=False), np.cov(part, rowvar=False)
    root = root_of(first)
    step = big.mean(axis=0) - part.mean(axis=0)
    return step @ step + np.trace(first) + np.trace(second) - 2 * np.trace(root_of(root @ second @ root))


@pytest.mark.parametrize("width", [2, 6, 60])
def test_costs_are_frechet_distances_also_with_fewer_rows_than_dimensions(width):
    rows, generator = data(width=width)
    chosen = np.stack([generator.permutation(40)[:12] for _ in range(5)])
    expected = [slow_cost(rows, rows[part]) for part in chosen]
    # The slow form takes roots of singular matrices: their rounding, about 1e-8 of the largest, is its error.
    assert frechet_costs(rows, chosen) == pytest.approx(expected, rel=1e-5, abs=1e-5)


def test_the_whole_batch_costs_nothing_and_no_other_costs_less():
    rows, generator = data()
    repeats = np.stack([generator.integers(40, size=40) for _ in range(50)])
    costs = frechet_costs(rows, np.concatenate([repeats, generator.permutation(40)[None]]))
    assert np.argmin(costs) == 50
    assert abs(costs[50]) < 1e-5 * np.trace(np.cov(rows, rowvar=False))
    assert costs[:50].min() > 0.01


def test_rotating_or_moving_all_rows_changes_no_cost_and_doubling_them_makes_four_times_of_it():
    rows, generator = data()
    chosen = np.stack([generator.permutation(40)[:12] for _ in range(4)])
    costs = frechet_costs(rows, chosen)
    turned = rows @ np.linalg.qr(generator.normal(size=(6, 6)))[0] + 3.0
    assert frechet_costs(turned, chosen) == pytest.approx(costs, rel=1e-6)
    assert frechet_costs(2 * rows, chosen) == pytest.approx(4 * costs, rel=1e-6)
    # Roots of what should be 0 and is 1e-16 are 1e-8: so much the order of sums may change.
    assert frechet_costs(rows, chosen[:, ::-1]) == pytest.approx(costs, rel=1e-6)


def test_equal_rows_cost_nothing_and_a_single_row_its_distance_to_the_mean():
    assert frechet_costs(np.ones((5, 3), dtype=np.float32), np.array([[0, 1], [2, 2]])) == pytest.approx([0, 0])
    rows = np.array([[0.0, 0.0], [2.0, 0.0]])
    assert frechet_costs(rows, np.array([[1]])) == pytest.approx([1.0 + 2.0])
    assert frechet_costs(rows[:1], np.array([[0]])) == pytest.approx([0.0])


def test_settings_that_cannot_be_matched_are_refused():
    with pytest.raises(ConfigError, match="big_batch_size must be an integer >= 112; got 100"):
        FrechetMatching(big_batch_size=100)
    with pytest.raises(ConfigError, match="num_candidates must be an integer >= 1; got 0"):
        FrechetMatching(num_candidates=0)
    with pytest.raises(ConfigError, match="project must be an integer >= 1; got 0"):
        FrechetMatching(project=0)
    with pytest.raises(ConfigError, match="FrechetMatching: batch_size must be a multiple of per_class = 5"):
        FrechetMatching(per_class=5)
