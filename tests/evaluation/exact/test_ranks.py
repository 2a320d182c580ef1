"""Ranks of positives against plain counting, with ties, copies, groups, and separate queries and gallery."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from unseen.evaluation.exact.count_above import count_by_screening, count_by_sorting
from unseen.evaluation.exact.inputs import read_table
from unseen.evaluation.exact.positives import find_positives
from unseen.evaluation.exact.ranks import Ranks, in_table_order, rank_positives


def by_counting(table):
    """(above, tied) of every positive, nearest first, by comparing each with each."""
    units = table.directions.integers()
    similarity = (units @ units.T * table.directions.inverse_norms).numpy()
    groups = np.arange(len(units)) if table.groups is None else table.groups
    found = []
    for query in table.queries:
        others = [item for item in table.gallery if item != query and groups[item] != groups[query]]
        positives = sorted(
            (similarity[query, item] for item in others if table.classes[item] == table.classes[query]), reverse=True
        )
        found.append(
            [
                (
                    sum(bool(similarity[query, item] > value) for item in others),
                    sum(bool(similarity[query, item] == value) for item in others),
                )
                for value in positives
            ]
        )
    return found


def as_lists(ranks):
    ends = np.cumsum(ranks.positives)
    pairs = list(zip(ranks.above.tolist(), ranks.tied.tolist(), strict=True))
    return [pairs[end - count : end] for end, count in zip(ends, ranks.positives, strict=True)]


def table_with_copies(seed, count=60, **rows):
    generator = np.random.default_rng(seed)
    embeddings = generator.normal(size=(count // 2, 5))[generator.integers(count // 2, size=count)]
    embeddings[:3] = 0
    return read_table(embeddings, generator.integers(9, size=count), **rows)


@pytest.mark.parametrize("seed", range(10))
def test_ranks_equal_plain_counting(seed):
    table = table_with_copies(seed)
    assert as_lists(rank_positives(table)) == by_counting(table)


@pytest.mark.parametrize("seed", range(5))
def test_ranks_with_separate_queries_and_gallery_equal_plain_counting(seed):
    generator = np.random.default_rng(seed)
    queries = generator.permutation(60)[:20]
    for gallery in (generator.permutation(60)[:30], np.setdiff1d(np.arange(60), queries), None):
        table = table_with_copies(seed, queries=queries, gallery=gallery)
        ranks = rank_positives(table)
        assert as_lists(ranks) == by_counting(table)
        assert ranks.candidates.tolist() == [len(table.gallery) - (query in table.gallery) for query in queries]


def every_way(table, chunks=(7, 4096), sides=(30, 4096)):
    """The ranks by each engine, in blocks of several sizes."""
    positives = find_positives(table, memory=500)
    for chunk in chunks:
        yield in_table_order(positives, count_by_sorting(positives, memory=500, chunk=chunk))
    for side in sides:
        for few in (0, 1000):
            yield in_table_order(positives, count_by_screening(positives, memory=500, tile_side=side, few=few))


def assert_all_equal(found, expected):
    for one in found:
        for name in ("above", "tied", "positives", "candidates"):
            assert np.array_equal(getattr(one, name), getattr(expected, name))


@pytest.mark.parametrize("seed", range(4))
def test_both_engines_equal_plain_counting_in_blocks_of_any_size(seed):
    generator = np.random.default_rng(seed)
    table = table_with_copies(seed, count=16)
    assert_all_equal(every_way(table, (1, 7, 4096), (1, 7, 4096)), rank_positives(table))
    # Whole numbers: many ties between different directions.
    rows = generator.integers(-1, 2, size=(60, 3))
    table = read_table(rows, generator.integers(5, size=60), queries=generator.permutation(60)[:25])
    assert as_lists(rank_positives(table)) == by_counting(table)
    assert_all_equal(every_way(table), rank_positives(table))


@pytest.mark.parametrize("seed", range(4))
def test_groups_do_not_answer_their_own_queries(seed):
    generator = np.random.default_rng(seed)
    groups = generator.integers(12, size=60)
    for rows in ({}, {"queries": generator.permutation(60)[:20], "gallery": generator.permutation(60)[:30]}):
        table = table_with_copies(seed, groups=groups, **rows)
        ranks = rank_positives(table)
        assert as_lists(ranks) == by_counting(table)
        expected = [
            sum(bool(groups[item] != groups[query]) for item in table.gallery if item != query)
            for query in table.queries
        ]
        assert ranks.candidates.tolist() == expected
        assert_all_equal(every_way(table), ranks)


def test_a_group_that_holds_its_whole_class_leaves_no_positives():
    table = read_table(np.eye(4), [0, 0, 1, 1], groups=["a", "a", "b", "c"])
    assert rank_positives(table).positives.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("kind", ["collapsed", "copies", "clusters", "zeros"])
def test_threads_tiles_and_engines_change_nothing(kind):
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(500, 96)).astype(np.float32)
    labels = generator.integers(40, size=500)
    if kind == "collapsed":
        rows[:] = rows[0]
    elif kind == "copies":
        rows[250:] = rows[:250]
    elif kind == "clusters":
        rows += 3 * generator.normal(size=(40, 96))[labels].astype(np.float32)
    else:
        rows[::3] = 0
    table = read_table(rows, labels)
    positives = find_positives(table, memory=500)
    expected = in_table_order(positives, count_by_sorting(positives, memory=500))
    threads = torch.get_num_threads()
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            assert_all_equal(every_way(table, (190,), (190,)), expected)
    finally:
        torch.set_num_threads(threads)


def test_large_tables_are_screened_and_ranked_as_small_parts_of_them_are():
    # Above the size from which compiled loops are used; 100 queries of it are below.
    generator = np.random.default_rng(1)
    labels = generator.integers(300, size=2100)
    rows = generator.normal(size=(300, 24))[labels] + generator.normal(size=(2100, 24))
    rows[:50] = rows[50:100]
    every = as_lists(rank_positives(read_table(rows, labels)))
    few = as_lists(rank_positives(read_table(rows, labels, queries=np.arange(100))))
    assert every[:100] == few


def test_the_order_of_the_rows_does_not_matter():
    generator = np.random.default_rng(2)
    rows, labels = generator.integers(-2, 3, size=(150, 4)), generator.integers(11, size=150)
    order = generator.permutation(150)
    before = as_lists(rank_positives(read_table(rows, labels)))
    after = as_lists(rank_positives(read_table(rows[order], labels[order])))
    assert [before[row] for row in order] == after


def test_a_collapsed_table_ties_everything():
    ranks = rank_positives(read_table(np.ones((30, 4)), np.repeat(np.arange(6), 5)))
    assert (ranks.above == 0).all()
    assert (ranks.tied == 29).all()


CHILD = """
import resource, sys
import numpy as np
from unseen.evaluation.exact.inputs import read_table
from unseen.evaluation.exact.ranks import rank_positives
def rank(path, memory):
    rows = np.load(path, mmap_mode="r")
    labels = np.arange(len(rows)) // 4
    return rank_positives(read_table(rows, labels, queries=range(0, len(rows), 64), memory=memory), memory=memory)
rank(sys.argv[2], 64)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
found = rank(sys.argv[1], 64)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024, found.above.sum())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read in Linux's units")
def test_a_mapped_table_larger_than_the_memory_is_never_loaded_whole(tmp_path):
    large = np.lib.format.open_memmap(tmp_path / "large.npy", "w+", dtype=np.float32, shape=(19200, 2048))
    generator = np.random.default_rng(0)
    for start in range(0, len(large), 1200):
        large[start : start + 1200] = generator.standard_normal((1200, 2048), dtype=np.float32)
    large.flush()
    np.save(tmp_path / "small.npy", large[:256])
    command = [sys.executable, "-c", CHILD, str(tmp_path / "large.npy"), str(tmp_path / "small.npy")]
    grown, _ = map(float, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    # The file has 150 MiB; 64 MB may be used, and the interpreter needs a few more.
    assert grown < 90


def test_classes_without_a_place_in_the_gallery_have_no_ranks():
    table = read_table(np.eye(4), [0, 1, 2, 3], queries=[0, 1], gallery=[2, 3])
    ranks = rank_positives(table)
    assert ranks.positives.tolist() == [0, 0]
    assert len(ranks.above) == 0


def test_the_query_is_removed_by_its_index_and_not_as_its_first_neighbour():
    # Row 1 is a copy of row 0 in another class: dropping the first neighbour would drop it half of the time.
    table = read_table(np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 1.0]]), [0, 1, 0])
    assert as_lists(rank_positives(table))[0] == [(1, 1)]


def test_tied_groups_know_what_stands_before_them():
    ranks = Ranks(
        above=np.array([0, 2, 2, 7, 0]),
        tied=np.array([1, 3, 3, 1, 4]),
        positives=np.array([4, 0, 1]),
        candidates=np.array([9, 9, 9]),
    )
    assert [group.tolist() for group in ranks.groups] == [
        [0, 0, 0, 2],
        [0, 2, 7, 0],
        [1, 3, 1, 4],
        [1, 2, 1, 1],
        [0, 1, 3, 0],
    ]
    optimistic = ranks.optimistic()
    assert optimistic.above.tolist() == [0, 2, 3, 7, 0]
    assert set(optimistic.tied.tolist()) == {1}
    only = ranks.select(np.array([False, True, True]))
    assert (only.above.tolist(), only.positives.tolist()) == ([0], [0, 1])
