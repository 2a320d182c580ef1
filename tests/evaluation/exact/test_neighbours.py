"""Nearest neighbours: the exact order by similarity, then by row."""

import numpy as np
import pytest

from unseen.core.errors import BatchError, ConfigError
from unseen.evaluation import evaluate, nearest_neighbours
from unseen.evaluation.exact.inputs import read_table
from unseen.evaluation.exact.neighbours import nearest_by_screening, nearest_by_sorting
from unseen.evaluation.exact.tiles import QueryGallery


def table(seed=0, count=300):
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=(count // 2, 6))[generator.integers(count // 2, size=count)]
    return rows, generator.integers(10, size=count)


@pytest.mark.parametrize("seed", range(5))
def test_neighbours_equal_a_full_sort_by_similarity_and_row(seed):
    rows, labels = table(seed)
    found = nearest_neighbours(rows, labels, k=7)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    for query in range(len(rows)):
        # Copies differ in the last bits of a rounded product; random rows differ by far more than 1e-6.
        similarity = (unit @ unit[query]).round(6)
        others = sorted((-similarity[row], row) for row in range(len(rows)) if row != query)[:7]
        assert found.indices[query].tolist() == [row for _, row in others]
        assert found.similarities[query] == pytest.approx([-value for value, _ in others], abs=1e-6)
        assert found.right[query].tolist() == [labels[row] == labels[query] for _, row in others]


@pytest.mark.parametrize("kind", ["copies", "integers", "apart", "collapsed"])
def test_screened_tiles_of_any_size_give_the_order_of_exact_rows(kind):
    generator = np.random.default_rng(6)
    rows = {
        "copies": generator.normal(size=(120, 6))[generator.integers(120, size=240)],
        "integers": generator.integers(-1, 2, size=(240, 3)),
        "apart": generator.normal(size=(240, 50)),
        "collapsed": np.ones((240, 2)),
    }[kind]
    some = generator.permutation(240)[:50], generator.permutation(240)[:200]
    for queries, gallery in ((None, None), some):
        read = read_table(rows, np.zeros(240, dtype=int), queries, gallery)
        query_gallery = QueryGallery.from_table(read, read.queries, np.sort(read.gallery))
        for k in (1, 8):
            expected = nearest_by_sorting(query_gallery, k, np.arange(len(read.queries)))
            for side, memory in ((7, 500), (4096, 500), (64, 0.2)):
                found = nearest_by_screening(query_gallery, k, memory=memory, side=side)
                assert np.array_equal(found.positions, expected.positions)
                assert np.array_equal(found.similarities, expected.similarities)


def test_the_query_never_answers_itself_even_among_copies():
    found = nearest_neighbours(np.ones((6, 2)), [0] * 6, queries=[2, 0], k=3)
    assert found.indices.tolist() == [[0, 1, 3], [1, 2, 3]]
    assert found.similarities == pytest.approx(np.ones((2, 3)), abs=1e-12)


def test_neighbours_come_from_the_gallery_under_their_own_row_numbers():
    rows, labels = table()
    found = nearest_neighbours(rows, labels, [5, 250], 4, gallery=range(299, 200, -1))
    assert found.indices.shape == (2, 4)
    assert found.indices.min() > 200
    assert 250 not in found.indices[1]


def test_the_order_in_which_a_gallery_is_listed_does_not_matter():
    found = nearest_neighbours(np.ones((6, 2)), [0] * 6, queries=[2], k=3, gallery=[5, 4, 2, 1])
    assert found.indices.tolist() == [[1, 4, 5]]


def test_a_small_gallery_gives_fewer_neighbours():
    assert nearest_neighbours(np.eye(3), [0, 1, 2], k=10).indices.shape == (3, 2)
    assert nearest_neighbours(np.eye(3), [0, 1, 2], queries=[0], gallery=[1, 2], k=10).indices.shape == (1, 2)
    assert nearest_neighbours(np.eye(1), [0], k=10).indices.shape == (1, 0)


def test_the_first_neighbour_agrees_with_recall_at_1_where_nothing_ties():
    rows, labels = np.random.default_rng(3).normal(size=(200, 4)), np.arange(200) % 9
    found = nearest_neighbours(rows, labels, k=1)
    assert found.right.mean() == pytest.approx(evaluate(rows, labels, scores="recall@1")["recall@1"], abs=1e-12)


def test_many_queries_are_answered_block_by_block():
    rows, labels = np.random.default_rng(4).normal(size=(600, 3)), np.zeros(600, dtype=int)
    every = nearest_neighbours(rows, labels, k=3)
    one = nearest_neighbours(rows, labels, queries=[577], k=3)
    assert every.indices[577].tolist() == one.indices[0].tolist()


def test_wrong_arguments_are_refused():
    with pytest.raises(ConfigError, match="nearest_neighbours: k must be an integer >= 1; got 0"):
        nearest_neighbours(np.eye(3), [0, 1, 2], k=0)
    with pytest.raises(BatchError, match="queries must be rows from 0 to 2"):
        nearest_neighbours(np.eye(3), [0, 1, 2], queries=[3])
