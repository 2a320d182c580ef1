"""Ranks of positives against plain counting, with ties, copies, and separate queries and gallery."""

import numpy as np
import pytest
import torch

from unseen.evaluation.inputs import read_table
from unseen.evaluation.ranks import Ranks, rank_positives


def by_counting(table):
    """(above, tied) of every positive, nearest first, by comparing each with each."""
    units, inverse = table.directions
    similarity = (units @ units.T * inverse).numpy()
    found = []
    for query in table.queries:
        others = [item for item in table.gallery if item != query]
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


def test_the_size_of_a_block_and_the_number_of_threads_change_nothing():
    generator = np.random.default_rng(0)
    embeddings = generator.normal(size=(500, 96)).astype(np.float32)
    embeddings[450:] = embeddings[:50]
    table = read_table(embeddings, generator.integers(40, size=500))
    expected = rank_positives(table)
    threads = torch.get_num_threads()
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            for chunk in (1, 7, 4096):
                found = rank_positives(table, chunk=chunk)
                assert (found.above == expected.above).all()
                assert (found.tied == expected.tied).all()
    finally:
        torch.set_num_threads(threads)


def test_a_block_respects_the_memory_asked_for():
    table = table_with_copies(0, count=300)
    small, large = rank_positives(table, memory=1), rank_positives(table, memory=64)
    assert (small.above == large.above).all()


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
    only = ranks.only(np.array([False, True, True]))
    assert (only.above.tolist(), only.positives.tolist()) == ([0], [0, 1])
