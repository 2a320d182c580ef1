"""Catalogues: their fingerprint, and the rules that all data sets share."""

from typing import Any

import numpy as np
import pytest

from unseen.core.errors import DataError
from unseen.data.catalogue import Catalogue, apply_small_class_policy, encode_labels, sort_class_names
from unseen.data.item_readers import FeatureArray


def catalogue(**changes):
    settings: dict[str, Any] = {
        "name": "small",
        "reader": FeatureArray(np.arange(8.0).reshape(4, 2)),
        "labels": np.array([0, 0, 1, 1]),
        "class_names": ("a", "b"),
        "ids": ("1", "2", "3", "4"),
    }
    return Catalogue(**(settings | changes))


def test_the_fingerprint_follows_ids_classes_and_content_and_nothing_else():
    same = catalogue().fingerprint
    assert catalogue(name="other", notes=("seen",)).fingerprint == same
    changed = {
        catalogue(ids=("1", "2", "3", "5")).fingerprint,
        catalogue(class_names=("a", "c")).fingerprint,
        catalogue(labels=np.array([0, 1, 0, 1])).fingerprint,
        catalogue(reader=FeatureArray(np.zeros((4, 2)))).fingerprint,
        same,
    }
    assert len(changed) == 5


def test_a_catalogue_describes_itself():
    assert catalogue().describe() == "small: 4 features, 2 classes"
    assert catalogue(class_groups=("x", "x")).describe() == "small: 4 features, 2 classes in 1 groups"


def test_an_empty_catalogue_is_refused():
    with pytest.raises(DataError, match="empty"):
        catalogue(reader=FeatureArray(np.zeros((0, 2))), labels=np.zeros(0, np.int64), ids=())


@pytest.mark.parametrize(
    "changes",
    [
        {"labels": np.array([0, 1])},
        {"labels": np.array([0, 0, 1, 2])},
        {"labels": np.array([0, 0, 1, -1])},
        {"labels": np.array([0, 0, 1, 1], np.int32)},
        {"class_groups": ("x",)},
        {"fixed_split": np.array(["train"])},
    ],
)
def test_a_catalogue_that_contradicts_itself_is_our_own_mistake(changes):
    with pytest.raises(AssertionError):
        catalogue(**changes)


def test_whole_numbers_are_ordered_by_value_and_words_by_letters():
    assert sort_class_names({"2", "10", "1"}) == ("1", "2", "10")
    assert sort_class_names({"2", "10", "x"}) == ("10", "2", "x")
    assert sort_class_names({"01", "1"}) == ("01", "1")


def test_a_class_of_one_item_is_refused_dropped_or_kept():
    classes = ["a", "b", "a", "c", "c"]
    with pytest.raises(DataError) as caught:
        apply_small_class_policy("birds", classes, "refuse")
    assert caught.value.message.startswith("birds: class 'b' has a single item")
    assert "small_classes=drop" in caught.value.message
    assert apply_small_class_policy("birds", classes, "drop")[0] == [0, 2, 3, 4]
    kept, notes = apply_small_class_policy("birds", classes, "keep")
    assert kept == [0, 1, 2, 3, 4]
    assert notes == ["classes with a single item: 1"]
    assert apply_small_class_policy("birds", ["a", "b", "b", "a"], "refuse") == ([0, 1, 2, 3], [])


def test_fewer_than_two_classes_are_refused():
    for policy in ("refuse", "drop", "keep"):
        with pytest.raises(DataError, match="at least 2 classes are needed; got 1"):
            apply_small_class_policy("birds", ["a", "a"], policy)
    with pytest.raises(DataError, match="at least 2 classes are needed; got 0"):
        apply_small_class_policy("birds", ["a", "b"], "drop")


def test_a_class_has_one_group():
    assert encode_labels("x", ["b", "a", "b"], ["two", "one", "two"])[2] == ("one", "two")
    with pytest.raises(DataError, match="class 'b' has items of two groups, 'two' and 'one'"):
        encode_labels("x", ["b", "a", "b"], ["two", "one", "one"])
