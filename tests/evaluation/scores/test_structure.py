"""Distances within and between classes, against loops, closed forms and symmetries."""

import itertools
import math

import numpy as np
import pytest
import torch

import unseen.evaluation.scores.structure as structure
from unseen.core.registry import score
from unseen.evaluation.exact.directions import read_directions

FUNCTIONS = {
    "intra": structure.intra_distance,
    "inter": structure.inter_distance,
    "intra_euclidean": structure.euclidean_intra_distance,
    "inter_euclidean": structure.euclidean_inter_distance,
    "alignment": structure.alignment,
}
# The unit vectors are rounded to 2^-26; so is each class mean.
TOLERANCE = 1e-7


def unit(row):
    length = math.sqrt(sum(x * x for x in row))
    return [x / length for x in row] if length > 1e-12 else [0.0] * len(row)


def cosine_distance(one, two):
    return 1 - sum(x * y for x, y in zip(unit(one), unit(two), strict=True))


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else 0.0


def by_loops(name, rows, classes):
    members = [[unit(row) for row, own in zip(rows, classes, strict=True) if own == each] for each in set(classes)]
    pairs = [list(itertools.combinations(group, 2)) for group in members]
    means = [np.mean(group, axis=0).tolist() for group in members]
    if name == "intra":
        return mean(mean(cosine_distance(*pair) for pair in group) for group in pairs if group)
    if name == "inter":
        return mean(cosine_distance(*pair) for pair in itertools.combinations(means, 2))
    if name == "intra_euclidean":
        return mean(mean(math.dist(*pair) for pair in group) for group in pairs if group)
    if name == "inter_euclidean":
        return mean(math.dist(*pair) for pair in itertools.combinations(means, 2))
    return mean(2 * cosine_distance(*pair) for pair in itertools.chain(*pairs))


def table(number):
    """Small tables: random, with copies, with right angles and zero rows, or collapsed."""
    generator = np.random.default_rng(number)
    count = int(generator.integers(1, 14))
    classes = np.unique(generator.integers(generator.integers(1, 6), size=count), return_inverse=True)[1]
    kind = number % 4
    if kind == 0:
        # Class means of opposite rows would vanish, and what rounding leaves of them has any direction.
        rows = generator.integers(0, 2, size=(count, 3)).astype(float)
    elif kind == 1:
        rows = generator.normal(size=(3, 4))[generator.integers(3, size=count)]
    elif kind == 2:
        rows = generator.normal(size=(count, 5))
    else:
        rows = np.ones((count, 2))
    return rows, classes.astype(np.int64)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_distance_equals_its_loops_on_200_tables(name):
    for number in range(200):
        rows, classes = table(number)
        found = FUNCTIONS[name](structure.class_sums(read_directions(rows), classes))
        expected = by_loops(name, rows.tolist(), classes.tolist())
        assert found == pytest.approx(expected, abs=TOLERANCE), f"table {number}"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_rows_threads_and_block_sizes_do_not_matter_to_the_last_bit(name, monkeypatch):
    generator = np.random.default_rng(0)
    classes = np.sort(generator.integers(9, size=130)).astype(np.int64)
    rows = generator.normal(size=(9, 24))[classes] + generator.normal(size=(130, 24))
    rows[:5] = 0.0
    rows[5:15] = rows[60:70]
    found = FUNCTIONS[name](structure.class_sums(read_directions(rows), classes))
    shuffled = generator.permutation(130)
    renamed = (classes * 2 + 3) % 9
    threads = torch.get_num_threads()
    try:
        for count, block in ((1, 2048), (2, 2048), (2, 7), (1, 1)):
            torch.set_num_threads(count)
            monkeypatch.setattr(structure, "_ROWS_AT_ONCE", block)
            assert FUNCTIONS[name](structure.class_sums(read_directions(rows[shuffled]), renamed[shuffled])) == found
    finally:
        torch.set_num_threads(threads)


def test_collapsed_classes_have_no_width():
    classes = np.arange(30) % 5
    rows = np.random.default_rng(0).normal(size=(5, 8))[classes]
    directions = read_directions(rows)
    for name in ("intra", "intra_inter", "intra_euclidean", "intra_inter_euclidean", "alignment"):
        assert score[name]()(structure.class_sums(directions, classes)) == 0.0
    assert score["inter"]()(structure.class_sums(directions, classes)) > 0.1


def test_opposite_pairs_and_orthogonal_classes_have_known_distances():
    opposite = read_directions(np.array([[1.0, 0.0], [-1.0, 0.0]]))
    together, apart = np.array([0, 0]), np.array([0, 1])
    assert structure.intra_distance(structure.class_sums(opposite, together)) == 2.0
    assert structure.euclidean_intra_distance(structure.class_sums(opposite, together)) == 2.0
    assert structure.alignment(structure.class_sums(opposite, together)) == 4.0
    assert structure.inter_distance(structure.class_sums(opposite, apart)) == 2.0
    right_angled = read_directions(np.eye(3))
    assert structure.inter_distance(structure.class_sums(right_angled, np.arange(3))) == 1.0
    assert structure.euclidean_inter_distance(structure.class_sums(right_angled, np.arange(3))) == pytest.approx(
        math.sqrt(2), abs=1e-10
    )


def test_copies_of_the_images_of_a_class_move_intra_but_not_inter():
    generator = np.random.default_rng(0)
    rows, classes = generator.normal(size=(12, 4)), np.arange(12) % 3
    copied = np.concatenate([rows, rows[classes == 0]]), np.concatenate([classes, [0] * 4])
    once, twice = read_directions(rows), read_directions(copied[0])
    assert structure.inter_distance(structure.class_sums(twice, copied[1])) == structure.inter_distance(
        structure.class_sums(once, classes)
    )
    assert structure.intra_distance(structure.class_sums(twice, copied[1])) < structure.intra_distance(
        structure.class_sums(once, classes)
    )


def test_classes_of_one_image_have_no_intra_distance_but_count_for_inter():
    directions = read_directions(np.eye(4))
    assert (
        structure.intra_distance(structure.class_sums(directions, np.arange(4)))
        == structure.alignment(structure.class_sums(directions, np.arange(4)))
        == 0.0
    )
    assert structure.inter_distance(structure.class_sums(directions, np.array([0, 0, 1, 2]))) == pytest.approx(
        1.0, abs=TOLERANCE
    )
    assert structure.intra_distance(structure.class_sums(directions, np.array([0, 0, 1, 2]))) == 1.0


def test_one_class_is_far_from_nothing():
    directions = read_directions(np.eye(3))
    one = np.zeros(3, dtype=np.int64)
    assert (
        structure.inter_distance(structure.class_sums(directions, one))
        == structure.euclidean_inter_distance(structure.class_sums(directions, one))
        == 0.0
    )
    assert score["intra_inter"]()(structure.class_sums(directions, one)) == pytest.approx(1e8)


def test_a_large_class_does_not_overflow():
    # 5,000 copies: the square of their sum has 77 binary digits.
    rows = np.concatenate([np.tile([[1.0, 2.0, 3.0]], (5000, 1)), [[-1.0, -2.0, -3.0]]])
    classes = np.zeros(5001, dtype=np.int64)
    pairs = 5001 * 5000 / 2
    assert structure.intra_distance(structure.class_sums(read_directions(rows), classes)) == pytest.approx(
        2 * 5000 / pairs, rel=1e-7
    )
    assert structure.alignment(structure.class_sums(read_directions(rows), classes)) == pytest.approx(
        4 * 5000 / pairs, rel=1e-7
    )


def test_ratios_are_quotients():
    generator = np.random.default_rng(2)
    directions, classes = read_directions(generator.normal(size=(20, 3))), np.arange(20) % 4
    for end in ("", "_euclidean"):
        intra, inter = (
            score[f"{name}{end}"]()(structure.class_sums(directions, classes)) for name in ("intra", "inter")
        )
        assert score[f"intra_inter{end}"]()(structure.class_sums(directions, classes)) == intra / inter


def test_some_classes_of_the_sums_are_the_sums_of_those_classes():
    generator = np.random.default_rng(1)
    classes = np.repeat(np.arange(6), 7).astype(np.int64)
    directions = read_directions(generator.normal(size=(42, 8)))
    kept = np.array([0, 2, 5])
    rows = np.flatnonzero(np.isin(classes, kept))
    apart = structure.class_sums(directions.take(rows), np.unique(classes[rows], return_inverse=True)[1])
    sums = structure.class_sums(directions, classes)
    for name in (*FUNCTIONS, "intra_inter"):
        # Before and after the distances of all classes are computed.
        for _ in range(2):
            assert score[name]()(sums.select(kept)) == score[name]()(apart)
            score[name]()(sums)
