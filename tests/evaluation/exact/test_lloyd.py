"""Lloyd's iterations against a plain version in Python's integers, to the last bit, on tables full of ties."""

import itertools

import numpy as np
import pytest
import torch

from unseen.evaluation.exact import lloyd as engine
from unseen.evaluation.exact.directions import SCALE, read_directions
from unseen.evaluation.exact.kernels.centroids import Centroids
from unseen.evaluation.exact.lloyd import lloyd


@pytest.fixture(autouse=True, params=["NumPy", "compiled"])
def loops(request, monkeypatch):
    """Every test runs with both kinds of loops; small tables would never meet the compiled ones."""
    monkeypatch.setattr(engine, "_MANY_COMPARISONS", 0 if request.param == "compiled" else 2**62)


def plainly(points, centroids, iterations):
    """Lloyd by loops over lists of integers; the sum of squared distances as one of them."""

    def distance(point, centroid):
        return sum((x - y) ** 2 for x, y in zip(point, centroid, strict=True))

    def assign():
        own = [min(range(len(centroids)), key=lambda c: (distance(point, centroids[c]), c)) for point in points]
        return own, [distance(point, centroids[c]) for point, c in zip(points, own, strict=True)]

    own, distances = assign()
    for _ in range(iterations):
        counts = [own.count(c) for c in range(len(centroids))]
        farthest = iter(sorted(range(len(points)), key=lambda p: (-distances[p], p)))
        for cluster in [c for c, count in enumerate(counts) if count == 0]:
            for p in farthest:
                if distances[p] > 0 and counts[own[p]] > 1:
                    counts[own[p]] -= 1
                    own[p] = cluster
                    break
        moved = []
        for c, centroid in enumerate(centroids):
            members = [point for point, cluster in zip(points, own, strict=True) if cluster == c]
            # A quotient of integers below 2^53 is rounded correctly by Python as by torch.
            moved.append([round(sum(x) / len(members)) for x in zip(*members, strict=True)] if members else centroid)
        if moved == centroids:
            break
        centroids = moved
        own, distances = assign()
    return own, sum(distances)


def whole_lists(tensor):
    return [[int(x) for x in row] for row in tensor.tolist()]


def check(rows, start, iterations=20, **settings):
    directions = read_directions(rows)
    own, total = plainly(whole_lists(directions.integers()), whole_lists(start), iterations)
    found = lloyd(directions, start, iterations=iterations, **settings)
    assert found.assignment.tolist() == own
    assert found.inertia == total / len(own) / SCALE**2


def table(number):
    """Small tables of four kinds: a grid with ties, copies, all rows apart, and rows too close for float32."""
    generator = np.random.default_rng(number)
    count, width = int(generator.integers(2, 30)), int(generator.integers(1, 5))
    kind = number % 4
    if kind == 0:
        return generator.integers(-1, 2, size=(count, width)).astype(float)
    if kind == 1:
        return generator.normal(size=(6, width))[generator.integers(6, size=count)]
    if kind == 2:
        return generator.normal(size=(count, width))
    return np.ones(width) + generator.integers(-3, 4, size=(count, width)) * 2.0**-25


@pytest.mark.parametrize("number", range(200))
def test_the_clusters_are_those_of_plain_whole_numbers_to_the_last_bit(number):
    generator = np.random.default_rng(1000 + number)
    rows = table(number)
    integers = read_directions(rows).integers()
    # Also the same point twice, which leaves a cluster empty.
    start = integers[torch.from_numpy(generator.integers(len(rows), size=generator.integers(1, len(rows) + 1)))]
    check(rows, start, iterations=int(generator.integers(1, 12)))


@pytest.mark.parametrize("number", range(40))
def test_centroids_that_are_no_points_and_lie_opposite_are_compared_exactly(number):
    generator = np.random.default_rng(2000 + number)
    rows = generator.normal(size=(12, 2)) * 0.05 + [1.0, 0.0]
    start = torch.from_numpy(np.round(generator.normal(size=(4, 2)) * 0.01 * SCALE + [-0.99 * SCALE, 0.0]))
    check(rows, start, iterations=3)


@pytest.mark.parametrize(("count", "clusters", "noise"), [(400, 80, 0.8), (300, 12, 1.5), (200, 100, 0.3)])
def test_larger_tables_agree_where_most_centroids_come_to_rest(count, clusters, noise):
    generator = np.random.default_rng(count)
    rows = generator.normal(size=(clusters, 6))[np.arange(count) % clusters] + noise * generator.normal(size=(count, 6))
    check(rows, read_directions(rows).integers(generator.choice(count, clusters, replace=False)))


def overlapping(count=900, clusters=150, width=16, seed=0):
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=(clusters, width))[np.arange(count) % clusters]
    rows = rows + 0.9 * generator.normal(size=(count, width))
    return rows, generator.choice(count, clusters, replace=False)


@pytest.mark.parametrize("tile", [1, 7, 64])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.1])
def test_neither_tiles_nor_what_is_skipped_change_anything(monkeypatch, tile, share):
    rows, start = overlapping(count=40 * tile + 60, clusters=8 * tile + 12) if tile < 64 else overlapping()
    directions = read_directions(rows)
    before = lloyd(directions, directions.integers(start), iterations=20)
    for name in ("_POINTS_AT_ONCE", "_CENTROIDS_AT_ONCE", "_ROWS_AT_ONCE"):
        monkeypatch.setattr(engine, name, tile)
    monkeypatch.setattr(engine, "_NEARLY_ALL", share)
    after = lloyd(directions, directions.integers(start), iterations=20)
    assert after.assignment.tolist() == before.assignment.tolist()
    assert after.inertia == before.inertia


def test_neither_threads_nor_memory_nor_kept_directions_change_anything():
    rows, start = overlapping(count=400, clusters=80, width=40)
    found = []
    threads = torch.get_num_threads()
    try:
        for number, memory, kept in [(1, 64, 500), (2, 64, 500), (1, 1, 500), (2, 1, 0)]:
            torch.set_num_threads(number)
            directions = read_directions(rows, memory=kept)
            found.append(lloyd(directions, directions.integers(start), iterations=20, memory=memory))
    finally:
        torch.set_num_threads(threads)
    assert all(one.assignment.tolist() == found[0].assignment.tolist() for one in found)
    assert len({one.inertia for one in found}) == 1


def test_products_that_may_have_fewer_digits_are_not_trusted():
    rows, start = overlapping(count=200, clusters=40)
    directions = read_directions(rows)
    before = lloyd(directions, directions.integers(start), iterations=5)
    precision = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        assert engine._error(16) == float("inf")
        after = lloyd(directions, directions.integers(start), iterations=5)
    finally:
        torch.set_float32_matmul_precision(precision)
    assert after.assignment.tolist() == before.assignment.tolist()


@pytest.mark.parametrize("width", [2, 3, 64, 513, 3000])
def test_the_error_of_float32_stays_below_its_bound(width):
    generator = np.random.default_rng(width)
    directions = read_directions(generator.normal(size=(200, width)))
    integers = directions.integers()
    centroids = Centroids.of(torch.cat([integers[:50], ((integers[:50] + integers[50:100]) / 2).round()]))
    found = directions.float32().numpy() @ centroids.float32.T - centroids.half_squares
    exact = (integers.numpy() @ centroids.integers.T - centroids.squares / 2) / SCALE**2
    worst = float(np.abs(found.astype(np.float64) - exact).max())
    assert 0 < worst < engine._error(width)


def test_few_points_are_left_to_exact_products(monkeypatch):
    rows, start = overlapping(count=3000, clusters=500, width=64)
    directions = read_directions(rows)
    doubtful = []
    exactly = engine._assign_exactly

    def counted(directions, centroids, nearest, rows, memory):
        doubtful.append(len(rows))
        exactly(directions, centroids, nearest, rows, memory)

    monkeypatch.setattr(engine, "_assign_exactly", counted)
    lloyd(directions, directions.integers(start), iterations=20)
    assert sum(doubtful) < 0.05 * 3000 * len(doubtful)


def test_more_iterations_never_raise_the_inertia():
    rows, start = overlapping()
    directions = read_directions(rows)
    values = [lloyd(directions, directions.integers(start), iterations=count).inertia for count in (1, 2, 3, 4, 8, 16)]
    # Centroids are rounded to 2^-26.
    assert all(later <= earlier + 1e-12 for earlier, later in itertools.pairwise(values))
    assert values[-1] < values[0]


def test_a_cluster_that_lost_its_points_takes_the_farthest_one():
    directions = read_directions(np.array([[1.0, 0.0], [1.0, 0.01], [1.0, 0.02], [0.0, 1.0]]))
    nowhere = torch.tensor([[-SCALE, 0.0]], dtype=torch.float64)
    found = lloyd(directions, torch.cat([directions.integers(slice(0, 1)), nowhere]), iterations=20)
    assert found.assignment.tolist() == [0, 0, 0, 1]


def test_filling_a_cluster_does_not_empty_another():
    # Point 0 is the farthest, but it is all that its cluster has.
    directions = read_directions(np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 0.1]]))
    far, nowhere = torch.tensor([[-0.9, 0.5], [0.0, -1.0]], dtype=torch.float64).mul(SCALE).round().split(1)
    found = lloyd(directions, torch.cat([far, directions.integers(slice(1, 2)), nowhere]), iterations=1)
    assert found.assignment.tolist() == [0, 1, 2]


def test_of_equally_far_points_an_empty_cluster_takes_the_first_by_rank():
    directions = read_directions(np.array([[1.0, 0.0], [1.0, 0.0], [0.6, 0.8], [0.6, -0.8]]))
    nowhere = torch.tensor([[-SCALE, 0.0]], dtype=torch.float64)
    start = torch.cat([directions.integers(slice(0, 1)), nowhere])
    by_row = lloyd(directions, start, iterations=1)
    by_rank = lloyd(directions, start, iterations=1, ranks=np.array([0, 1, 3, 2]))
    assert by_row.assignment.tolist() == [0, 0, 1, 0]
    assert by_rank.assignment.tolist() == [0, 0, 0, 1]


def test_the_start_is_left_alone_and_progress_is_told():
    rows, start = overlapping(count=200, clusters=40)
    directions = read_directions(rows)
    centroids = directions.integers(start)
    copy, told = centroids.clone(), []
    lloyd(directions, centroids, iterations=3, progress=lambda done, total, _: told.append((done, total)))
    assert torch.equal(centroids, copy)
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]
