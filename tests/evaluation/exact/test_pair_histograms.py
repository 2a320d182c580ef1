"""Histograms of all pairs, against loops, for any order, threads and tiles."""

import numpy as np
import pytest
import torch

import unseen.evaluation.exact.pair_histograms as pair_histograms_module
from unseen.evaluation.exact.directions import read_directions
from unseen.evaluation.exact.inputs import Table
from unseen.evaluation.exact.pair_histograms import BINS, bin_centres, pair_histograms


def clustered(count, classes, width, seed=0):
    generator = np.random.default_rng(seed)
    numbers = np.unique(generator.integers(classes, size=count), return_inverse=True)[1].astype(np.int64)
    return generator.normal(size=(classes, width))[numbers] + generator.normal(size=(count, width)), numbers


def table_of(rows, classes, queries=None, gallery=None, groups=None):
    every = np.arange(len(classes))
    queries, gallery = (every if numbers is None else numbers for numbers in (queries, gallery))
    return Table(read_directions(rows), classes, queries, gallery, groups)


def on_the_grid(count, seed=0):
    """Rows whose similarities are 1, 1/2, 0, -1/2 or -1 within 1e-7: in the middle of a bin, whatever the rounding."""
    generator = np.random.default_rng(seed)
    rows = np.zeros((count, 6))
    for row in rows:
        row[generator.choice(6, size=2, replace=False)] = generator.choice([-1.0, 1.0], size=2)
    return rows, np.unique(generator.integers(5, size=count), return_inverse=True)[1].astype(np.int64)


def by_loops(rows, classes, pairs, groups):
    lengths = np.linalg.norm(rows, axis=1)
    count = groups.max() + 1
    positives, negatives = np.zeros((count, BINS), dtype=int), np.zeros((count, count, BINS), dtype=int)
    for i, j in pairs:
        similarity = rows[i] @ rows[j] / (lengths[i] * lengths[j]) if lengths[i] * lengths[j] else 0.0
        place = int(np.floor((similarity + 1) * 2**15 + 0.5))
        if classes[i] == classes[j]:
            positives[groups[i], place] += 1
        else:
            negatives[min(groups[i], groups[j]), max(groups[i], groups[j]), place] += 1
    return positives, negatives


@pytest.mark.parametrize("tile", [1024, 7, 1])
def test_unordered_pairs_are_counted_once(tile, monkeypatch):
    monkeypatch.setattr(pair_histograms_module, "_TILE", tile)
    rows, classes = on_the_grid(40)
    rows[7] = 0.0
    groups = classes % 3
    pairs = [(i, j) for i in range(40) for j in range(i)]
    found = pair_histograms(table_of(rows, classes), class_groups=np.arange(classes.max() + 1) % 3)
    positives, negatives = by_loops(rows, classes, pairs, groups)
    assert (found.positives == positives).all()
    assert (found.negatives == negatives).all()


@pytest.mark.parametrize("tile", [1024, 5])
def test_a_query_is_compared_with_every_other_row_of_the_gallery(tile, monkeypatch):
    monkeypatch.setattr(pair_histograms_module, "_TILE", tile)
    rows, classes = on_the_grid(30)
    queries, gallery = np.arange(12), np.arange(8, 30)
    found = pair_histograms(table_of(rows, classes, queries, gallery))
    pairs = [(i, j) for i in queries for j in gallery if i != j]
    positives, negatives = by_loops(rows, classes, pairs, np.zeros(30, dtype=int))
    assert (found.positives == positives).all()
    assert (found.negatives == negatives).all()


@pytest.mark.parametrize("tile", [1024, 5])
def test_rows_of_one_group_are_no_pair(tile, monkeypatch):
    monkeypatch.setattr(pair_histograms_module, "_TILE", tile)
    rows, classes = on_the_grid(30)
    apart = np.random.default_rng(2).integers(4, size=30)
    queries, gallery = np.arange(12), np.arange(8, 30)
    nowhere = np.zeros(30, dtype=int)
    found = pair_histograms(table_of(rows, classes, groups=apart))
    pairs = [(i, j) for i in range(30) for j in range(i) if apart[i] != apart[j]]
    for counts, expected in zip(found, by_loops(rows, classes, pairs, nowhere), strict=True):
        assert (counts == expected).all()
    found = pair_histograms(table_of(rows, classes, queries, gallery, groups=apart))
    pairs = [(i, j) for i in queries.tolist() for j in gallery.tolist() if apart[i] != apart[j]]
    for counts, expected in zip(found, by_loops(rows, classes, pairs, nowhere), strict=True):
        assert (counts == expected).all()


def test_rows_names_and_threads_do_not_matter(monkeypatch):
    # Three strips of tiles, so that threads meet.
    monkeypatch.setattr(pair_histograms_module, "_TILE", 64)
    rows, classes = clustered(1200, 40, 96)
    rows[:50] = rows[50:100]
    found = pair_histograms(table_of(rows, classes))
    shuffled = np.random.default_rng(1).permutation(1200)
    renamed = (classes * 7 + 3) % (classes.max() + 1)
    threads = torch.get_num_threads()
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            again = pair_histograms(table_of(rows[shuffled], renamed[shuffled]))
            assert (again.positives == found.positives).all()
            assert (again.negatives == found.negatives).all()
    finally:
        torch.set_num_threads(threads)


def test_float32_moves_a_pair_by_one_bin_at_most():
    rows, classes = clustered(150, 10, 64)
    found = pair_histograms(table_of(rows, classes))
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    exact = np.sort((units @ units.T)[np.triu_indices(150, 1)])
    binned = np.repeat(bin_centres(), found.positives[0] + found.negatives[0, 0])
    # Half a bin, and what float32 and the directions round.
    assert np.abs(binned - exact).max() < 2**-16 + 1e-6


def test_a_collapsed_table_fills_one_bin():
    found = pair_histograms(table_of(np.full((9, 5), 0.3), np.arange(9) % 3))
    assert found.positives[0].tolist() == [0] * (BINS - 1) + [9]
    assert found.negatives[0, 0].tolist() == [0] * (BINS - 1) + [27]
    assert bin_centres()[[0, BINS // 2, -1]].tolist() == [-1, 0, 1]


def test_one_row_has_no_pair():
    found = pair_histograms(table_of(np.ones((1, 2)), np.array([0])))
    assert found.positives.sum() == found.negatives.sum() == 0
