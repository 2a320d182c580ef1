"""Labels of any kind, queries and gallery: read or refused in one sentence."""

import numpy as np
import pytest
import torch

from unseen.core.errors import BatchError
from unseen.evaluation.exact.inputs import class_numbers, read_table, row_numbers

THREE = np.eye(3)


@pytest.mark.parametrize(
    "labels",
    [
        [5, 5, 7],
        np.array([-3, -3, 0], dtype=np.int8),
        torch.tensor([10**12, 10**12, -(10**12)]),
        [10**30, 10**30, -1],
        [2**63, 2**63, -1],
        np.array([2**64 - 1, 2**64 - 1, 0], dtype=np.uint64),
        ["owl", "owl", "emu"],
        np.array(["1", "1", "01"]),
        np.array(["owl", "owl", "emu"], dtype=object),
        (np.int64(2), 2, np.int32(3)),
    ],
)
def test_labels_of_any_size_or_text_become_class_numbers(labels):
    first, second, third = class_numbers(labels)
    assert first == second != third
    assert {first, third} == {0, 1}


@pytest.mark.parametrize(
    "labels", [[1, "1", 2], [1.0, 2.0, 2.0], np.ones((3, 1), dtype=int), [None] * 3, [[1], [2], [3]], "abc", 3, None]
)
def test_labels_that_are_neither_whole_numbers_nor_texts_are_refused(labels):
    with pytest.raises(BatchError, match="labels must be"):
        class_numbers(labels)


def test_queries_and_gallery_are_all_rows_by_default():
    table = read_table(THREE, [0, 0, 1])
    assert table.queries.tolist() == table.gallery.tolist() == [0, 1, 2]


@pytest.mark.parametrize("rows", [[2, 0], (2, 0), np.array([2, 0]), torch.tensor([2, 0]), range(2, -1, -2)])
def test_rows_are_given_as_numbers(rows):
    assert row_numbers(rows, 3, "queries").tolist() == [2, 0]


@pytest.mark.parametrize("mask", [[True, False, True], np.array([1, 0, 1], bool), torch.tensor([True, False, True])])
def test_rows_are_given_as_a_mask(mask):
    assert row_numbers(mask, 3, "queries").tolist() == [0, 2]


def test_a_gallery_of_its_own_stands_behind_the_queries():
    table = read_table(THREE, ["a", "b", "c"], gallery=(torch.ones(2, 3), ("c", "d")))
    assert table.classes.tolist() == [0, 1, 2, 2, 3]
    assert table.queries.tolist() == [0, 1, 2]
    assert table.gallery.tolist() == [3, 4]


def test_groups_are_labels_of_any_kind():
    assert read_table(THREE, [0, 0, 1]).groups is None
    groups = read_table(THREE, [0, 0, 1], groups=["x", "y", "x"]).groups
    assert groups is not None
    assert groups.tolist() == [0, 1, 0]


def test_groups_of_queries_and_of_a_gallery_of_its_own_are_numbered_together():
    table = read_table(THREE, [0, 0, 1], groups=["b", "a", "b"], gallery=(THREE[:2], [0, 1], ["c", "a"]))
    assert table.groups is not None
    assert table.groups.tolist() == [1, 0, 1, 2, 0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"groups": [0, 1]}, "one group per embedding; got '3 embeddings, 2 groups'"),
        ({"groups": [0, 1, 2], "gallery": (np.ones((2, 3)), [0, 1])}, "groups must be given for both sides"),
        ({"gallery": (np.ones((2, 3)), [0, 1], [0, 1])}, "groups must be given for both sides"),
        ({"groups": [0, 1, 2], "gallery": (np.ones((2, 3)), [0, 1], [0])}, "one group per embedding"),
        ({"labels": [0, 1]}, "one label per embedding; got '3 embeddings, 2 labels'"),
        ({"queries": []}, "queries hold no row"),
        ({"queries": [False] * 3}, "queries hold no row"),
        ({"queries": [True, False]}, "one entry per row"),
        ({"queries": [3]}, "rows from 0 to 2"),
        ({"gallery": [-1]}, "gallery must be rows from 0 to 2"),
        ({"gallery": [1, 1]}, "gallery hold a row twice"),
        ({"gallery": [0.5]}, "row numbers or a mask"),
        ({"gallery": (np.ones((2, 2)), [0, 1])}, "same width"),
        ({"gallery": (np.ones((2, 3)), [0])}, "one label per embedding"),
        ({"gallery": (np.ones((2, 3)), ["a", "b"])}, "all of one kind"),
        ({"embeddings": np.ones((0, 3)), "labels": []}, "no embedding"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, message):
    with pytest.raises(BatchError, match=message):
        read_table(**{"embeddings": THREE, "labels": [0, 0, 1]} | arguments)
