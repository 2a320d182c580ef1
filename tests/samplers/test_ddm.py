import numpy as np
import pytest

from unseen.core.errors import ConfigError
from unseen.samplers import DistanceMatching
from unseen.samplers.ddm import distance_costs

stats = pytest.importorskip("scipy.stats")


def data(rows=40, width=6, seed=0):
    generator = np.random.default_rng(seed)
    return generator.normal(size=(rows, width)), generator


def pairwise(rows):
    return [np.linalg.norm(rows[i] - rows[j]) for i in range(len(rows)) for j in range(i)]


def slow_cost(big, part, compare):
    """The definition, pair by pair, with SciPy's Wasserstein distance."""
    all_pairs = pairwise(big)
    edges = np.linspace(min(all_pairs), max(all_pairs), 51)
    heights, own = (np.histogram(pairwise(each), bins=edges)[0] for each in (big, part))
    heights, own = heights / heights.sum(), own / own.sum()
    centres = (edges[1:] + edges[:-1]) / 2
    if compare == "distances":
        differs = stats.wasserstein_distance(centres, centres, heights, own)
    else:
        differs = stats.wasserstein_distance(heights, own) + stats.wasserstein_distance(own, heights)
    moments = np.linalg.norm(big.mean(axis=0) - part.mean(axis=0)) + np.linalg.norm(big.std(axis=0) - part.std(axis=0))
    return moments + 75 * differs


@pytest.mark.parametrize("compare", ["distances", "reference"])
def test_costs_are_those_of_a_loop_over_pairs(compare):
    rows, generator = data()
    chosen = np.stack([generator.permutation(40)[:12] for _ in range(5)])
    expected = [slow_cost(rows, rows[part], compare) for part in chosen]
    assert distance_costs(rows, chosen, compare=compare) == pytest.approx(expected, rel=1e-9)


def test_the_two_readings_of_the_histogram_choose_differently():
    rows, generator = data()
    chosen = np.stack([generator.permutation(40)[:12] for _ in range(30)])
    ours, theirs = (distance_costs(rows, chosen, compare=each) for each in ("distances", "reference"))
    assert np.argmin(ours) != np.argmin(theirs)


def test_the_whole_batch_costs_nothing_and_wins():
    rows, generator = data()
    repeats = np.stack([generator.integers(40, size=40) for _ in range(50)])
    costs = distance_costs(rows, np.concatenate([repeats, generator.permutation(40)[None]]))
    assert np.argmin(costs) == 50
    assert costs[50] == pytest.approx(0, abs=1e-12)
    assert costs[:50].min() > 0.01


def test_the_order_of_a_candidate_and_of_the_big_batch_changes_nothing():
    rows, generator = data()
    chosen = np.stack([generator.permutation(40)[:12] for _ in range(4)])
    costs = distance_costs(rows, chosen)
    assert distance_costs(rows, chosen[:, ::-1]) == pytest.approx(costs, rel=1e-12)
    order = generator.permutation(40)
    assert distance_costs(rows[order], np.argsort(order)[chosen]) == pytest.approx(costs, rel=1e-9)


@pytest.mark.parametrize("compare", ["distances", "reference"])
def test_rows_without_differences_cost_nothing(compare):
    assert distance_costs(np.ones((5, 3)), np.array([[0, 1], [2, 2]]), compare=compare).tolist() == [0, 0]
    assert distance_costs(np.ones((1, 3)), np.array([[0, 0]]), compare=compare)[0] >= 0
    assert np.isfinite(distance_costs(np.ones((2, 3)), np.array([[0]]), compare=compare)).all()


def test_an_unknown_reading_of_the_histogram_is_refused():
    with pytest.raises(ConfigError, match="compare must be one of 'distances', 'reference'; got 'heights'"):
        DistanceMatching(compare="heights")  # type: ignore[arg-type]  # wrong on purpose
