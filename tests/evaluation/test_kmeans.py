"""k-means against a loop, on clusters that are plain to see, and on degenerate points."""

import itertools

import numpy as np
import pytest
import torch

from unseen.core.errors import ConfigError
from unseen.evaluation.directions import SCALE, read_directions
from unseen.evaluation.kmeans import KMeans, lloyd


def lloyd_by_loops(points, centroids, iterations):
    for iteration in range(iterations + 1):
        assignment = [min(range(len(centroids)), key=lambda c: np.sum((p - centroids[c]) ** 2)) for p in points]
        assert len(set(assignment)) == len(centroids), "the reference knows no empty cluster"
        if iteration < iterations:
            centroids = [
                np.mean([p for p, a in zip(points, assignment, strict=True) if a == c], axis=0)
                for c in range(len(centroids))
            ]
    distances = [np.sum((p - centroids[a]) ** 2) for p, a in zip(points, assignment, strict=True)]
    return assignment, float(np.mean(distances))


def blobs(seed=0, clusters=6, each=20, noise=0.05):
    generator = np.random.default_rng(seed)
    labels = np.repeat(np.arange(clusters), each)
    return np.eye(clusters)[labels] + noise * generator.normal(size=(len(labels), clusters)), labels


@pytest.mark.parametrize("iterations", [1, 3, 20])
def test_lloyd_equals_the_loop(iterations):
    rows = np.random.default_rng(1).normal(size=(80, 4))
    units = read_directions(rows).units
    found = lloyd(units, units[:5], iterations=iterations)
    points = units.numpy() / SCALE
    assignment, inertia = lloyd_by_loops(points, list(points[:5]), iterations)
    assert found.assignment.tolist() == assignment
    # Centroids are rounded to 2^-26.
    assert found.inertia == pytest.approx(inertia, abs=1e-7)


def test_one_restart_in_ten_finds_clusters_that_are_plain_to_see():
    rows, labels = blobs()
    found = KMeans(restarts=10)(read_directions(rows), 6)
    assert len(set(zip(found.assignment.tolist(), labels.tolist(), strict=True))) == 6
    assert found.inertia <= KMeans(restarts=1)(read_directions(rows), 6).inertia


def test_the_order_of_the_rows_only_moves_the_answer():
    rows = np.random.default_rng(2).normal(size=(300, 10))
    rows[250:] = rows[:50]
    order = np.random.default_rng(3).permutation(300)
    before = KMeans()(read_directions(rows), 12)
    after = KMeans()(read_directions(rows[order]), 12)
    assert after.assignment.tolist() == before.assignment[order].tolist()
    assert after.inertia == pytest.approx(before.inertia, rel=1e-12)


def test_the_seed_chooses_the_start_and_nothing_else_does():
    directions = read_directions(np.random.default_rng(4).normal(size=(200, 5)))
    state = torch.get_rng_state()
    first, again = KMeans(seed=1)(directions, 9), KMeans(seed=1)(directions, 9)
    other = KMeans(seed=2)(directions, 9)
    assert first.assignment.tolist() == again.assignment.tolist() != other.assignment.tolist()
    assert torch.equal(state, torch.get_rng_state())


def test_more_iterations_never_raise_the_inertia():
    directions = read_directions(np.random.default_rng(5).normal(size=(300, 6)))
    values = [KMeans(iterations=count)(directions, 15).inertia for count in (1, 2, 4, 8, 16, 32)]
    assert all(later <= earlier + 1e-9 for earlier, later in itertools.pairwise(values))


def test_a_cluster_that_lost_its_points_takes_the_farthest_one():
    units = read_directions(np.array([[1.0, 0.0], [1.0, 0.01], [1.0, 0.02], [0.0, 1.0]])).units
    nowhere = torch.tensor([[-SCALE, 0.0]], dtype=torch.float64)
    found = lloyd(units, torch.cat([units[:1], nowhere]), iterations=20)
    assert found.assignment.tolist() == [0, 0, 0, 1]


def test_filling_a_cluster_does_not_empty_another():
    # Point 0 is the farthest, but it is all that its cluster has.
    units = read_directions(np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 0.1]])).units
    far, nowhere = torch.tensor([[-0.9, 0.5], [0.0, -1.0]], dtype=torch.float64).mul(SCALE).round().split(1)
    found = lloyd(units, torch.cat([far, units[1:2], nowhere]), iterations=1)
    assert found.assignment.tolist() == [0, 1, 2]


@pytest.mark.parametrize("clusters", [1, 2, 3, 50])
def test_fewer_distinct_points_than_clusters_give_a_cluster_each(clusters):
    rows = np.repeat(np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]), 7, axis=0)
    found = KMeans()(read_directions(rows), clusters)
    assert len(set(found.assignment.tolist())) == min(clusters, 3)
    if clusters >= 3:
        assert found.inertia == 0.0
        assert all(len(set(part.tolist())) == 1 for part in np.split(found.assignment, 3))


def test_as_many_clusters_as_points_give_each_point_its_own():
    found = KMeans()(read_directions(np.random.default_rng(6).normal(size=(40, 3))), 40)
    assert sorted(found.assignment.tolist()) == list(range(40))


def test_the_definition_names_engine_iterations_starts_and_seed():
    words = KMeans(iterations=7, restarts=3, seed=11).definition
    assert all(word in words for word in ("Lloyd", "7 iterations", "3 starts", "seed 11"))


@pytest.mark.parametrize("setting", [{"iterations": 0}, {"restarts": 0}, {"seed": -1}, {"seed": 0.5}])
def test_settings_out_of_range_are_refused(setting):
    with pytest.raises(ConfigError, match=f"KMeans: {next(iter(setting))} must be a whole number"):
        KMeans(**setting)
