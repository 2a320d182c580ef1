"""k-means: starts that do not depend on the order of the rows, clusters that are plain to see, degenerate points."""

import itertools

import numpy as np
import pytest
import torch

from unseen.core.errors import ConfigError
from unseen.core.randomness import numpy_generator
from unseen.evaluation.exact.directions import SCALE, read_directions
from unseen.evaluation.exact.kmeans import KMeans, plus_plus
from unseen.evaluation.exact.row_hashes import order_of, row_keys

STARTS = ("random", "k-means++")


def blobs(seed=0, clusters=6, each=20, noise=0.05):
    generator = np.random.default_rng(seed)
    labels = np.repeat(np.arange(clusters), each)
    return np.eye(clusters)[labels] + noise * generator.normal(size=(len(labels), clusters)), labels


@pytest.mark.parametrize("start", STARTS)
def test_one_restart_in_ten_finds_clusters_that_are_plain_to_see(start):
    rows, labels = blobs()
    found = KMeans(restarts=10, start=start)(read_directions(rows), 6)
    assert len(set(zip(found.assignment.tolist(), labels.tolist(), strict=True))) == 6
    assert found.inertia <= KMeans(restarts=1, start=start)(read_directions(rows), 6).inertia


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("clusters", [3, 12, 120])
def test_the_order_of_the_rows_only_moves_the_answer(start, clusters):
    rows = np.random.default_rng(2).normal(size=(300, 10))
    rows[250:] = rows[:50]
    order = np.random.default_rng(3).permutation(300)
    before = KMeans(start=start, restarts=2)(read_directions(rows), clusters)
    after = KMeans(start=start, restarts=2)(read_directions(rows[order]), clusters)
    assert after.assignment.tolist() == before.assignment[order].tolist()
    assert after.inertia == before.inertia


@pytest.mark.parametrize("start", STARTS)
def test_points_on_a_grid_have_ties_that_the_order_of_the_rows_does_not_break(start):
    for number in range(20):
        generator = np.random.default_rng(number)
        rows = generator.integers(-1, 2, size=(40, 3)).astype(float)
        order = generator.permutation(40)
        before = KMeans(start=start)(read_directions(rows), 9).assignment
        after = KMeans(start=start)(read_directions(rows[order]), 9).assignment
        assert after.tolist() == before[order].tolist()


def test_memory_changes_nothing():
    rows = np.random.default_rng(9).normal(size=(700, 70))
    before = KMeans(start="k-means++")(read_directions(rows), 90)
    after = KMeans(start="k-means++")(read_directions(rows, memory=0), 90, memory=1)
    assert after.assignment.tolist() == before.assignment.tolist()


@pytest.mark.parametrize("start", STARTS)
def test_the_seed_chooses_the_start_and_nothing_else_does(start):
    directions = read_directions(np.random.default_rng(4).normal(size=(200, 5)))
    state = torch.get_rng_state()
    first, again = KMeans(seed=1, start=start)(directions, 9), KMeans(seed=1, start=start)(directions, 9)
    other = KMeans(seed=2, start=start)(directions, 9)
    assert first.assignment.tolist() == again.assignment.tolist() != other.assignment.tolist()
    assert torch.equal(state, torch.get_rng_state())


def test_more_iterations_never_raise_the_inertia():
    directions = read_directions(np.random.default_rng(5).normal(size=(300, 6)))
    values = [KMeans(iterations=count)(directions, 15).inertia for count in (1, 2, 4, 8, 16, 32)]
    # Centroids are rounded to 2^-26.
    assert all(later <= earlier + 1e-12 for earlier, later in itertools.pairwise(values))


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("clusters", [1, 2, 3, 50])
def test_fewer_distinct_points_than_clusters_give_a_cluster_each(start, clusters):
    rows = np.repeat(np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]), 7, axis=0)
    found = KMeans(start=start)(read_directions(rows), clusters)
    assert len(set(found.assignment.tolist())) == min(clusters, 3)
    if clusters >= 3:
        assert found.inertia == 0.0
        assert all(len(set(part.tolist())) == 1 for part in np.split(found.assignment, 3))


@pytest.mark.parametrize("start", STARTS)
def test_as_many_clusters_as_points_give_each_point_its_own(start):
    found = KMeans(start=start)(read_directions(np.random.default_rng(6).normal(size=(40, 3))), 40)
    assert sorted(found.assignment.tolist()) == list(range(40))


def test_a_number_of_clusters_that_is_set_counts_instead_of_the_classes():
    directions = read_directions(np.random.default_rng(7).normal(size=(60, 3)))
    assert len(set(KMeans(clusters=9)(directions, 4).assignment.tolist())) == 9
    assert KMeans(clusters=9)(directions, 4).assignment.tolist() == KMeans()(directions, 9).assignment.tolist()


def test_plus_plus_draws_by_squared_distance():
    # From the first row, the squared distances to the others are 2 - 2 cos; the second row is drawn by them.
    angles = np.array([0.0, 0.4, 1.0, 1.7])
    directions = read_directions(np.stack([np.cos(angles), np.sin(angles)], axis=1))
    order = order_of(row_keys(directions))
    drawn = np.array([plus_plus(directions, order, 3, generator=numpy_generator(key), memory=64) for key in range(600)])
    integers = directions.integers().numpy() / SCALE
    distances = ((integers[:, None] - integers) ** 2).sum(axis=2)
    expected = {}
    for first, second, third in itertools.permutations(range(4), 3):
        near = np.minimum(distances[first], distances[second])
        chance = 1 / 4 * distances[first, second] / distances[first].sum() * near[third] / near.sum()
        expected[first, second, third] = chance
    for triple, chance in expected.items():
        share = (drawn == triple).all(axis=1).mean()
        # Four standard errors of a share of 600.
        assert share == pytest.approx(chance, abs=4 * np.sqrt(chance * (1 - chance) / 600))


def test_plus_plus_in_batches_draws_as_one_by_one(monkeypatch):
    # Two far groups, one of many copies: whatever the batch, each distinct point is drawn once before any twice.
    rows = np.concatenate([np.repeat([[1.0, 0.0, 0.0]], 30, axis=0), np.random.default_rng(8).normal(size=(30, 3))])
    directions = read_directions(rows)
    order = order_of(row_keys(directions))
    totals = []
    for proposals in (1, 256):
        monkeypatch.setattr("unseen.evaluation.exact.kmeans._PROPOSALS", proposals)
        nearest = []
        for key in range(40):
            chosen = plus_plus(directions, order, 12, generator=numpy_generator(key), memory=64)
            integers = directions.integers().numpy() / SCALE
            assert len(np.unique(integers[chosen], axis=0)) == 12
            nearest.append(((integers[:, None] - integers[chosen]) ** 2).sum(axis=2).min(axis=1).mean())
        totals.append((np.mean(nearest), np.std(nearest) / np.sqrt(len(nearest))))
    (one, error), (many, other_error) = totals
    assert one == pytest.approx(many, abs=4 * np.hypot(error, other_error))


def test_progress_counts_the_iterations_of_all_restarts():
    told = []
    directions = read_directions(np.random.default_rng(10).normal(size=(300, 6)))
    KMeans(iterations=2, restarts=3)(directions, 30, progress=lambda done, total, _: told.append((done, total)))
    assert told == [(done, 6) for done in (0, 1, 2, 2, 3, 4, 4, 5, 6)]


def test_the_definition_names_engine_clusters_iterations_starts_and_seed():
    words = KMeans(iterations=7, restarts=3, seed=11, start="k-means++").definition
    assert all(word in words for word in ("Lloyd", "per class", "7 iterations", "3 starts", "k-means++", "seed 11"))
    assert "11318 clusters" in KMeans(clusters=11318).definition
    assert "1 start from random distinct points" in KMeans().definition


@pytest.mark.parametrize(
    "setting", [{"iterations": 0}, {"restarts": 0}, {"seed": -1}, {"seed": 0.5}, {"clusters": 0}, {"clusters": 2.0}]
)
def test_settings_out_of_range_are_refused(setting):
    with pytest.raises(ConfigError, match=f"KMeans: {next(iter(setting))} must be an integer"):
        KMeans(**setting)


def test_a_start_that_is_not_known_is_refused():
    with pytest.raises(ConfigError, match="KMeans: start must be one of 'random', 'k-means"):
        KMeans(start="first")  # type: ignore[arg-type] # refused while it runs too
