"""Class splits: disjoint, repeatable, and refused in a sentence where they cannot be."""

import numpy as np
import pytest

from unseen.core.errors import ConfigError, DataError
from unseen.data import split_catalogue
from unseen.data.catalogue import Catalogue
from unseen.data.item_readers import FeatureArray
from unseen.data.splits import ByClasses, ByFraction, ByGroups, FirstClasses, Predefined


def catalogue(classes=40, per_class=3, **columns):
    labels = np.repeat(np.arange(classes), per_class)
    labels = np.random.default_rng(0).permutation(labels)
    return Catalogue(
        name="forty",
        reader=FeatureArray(np.arange(len(labels), dtype=np.float32)[:, None]),
        labels=labels,
        class_names=tuple(f"c{label:02}" for label in range(classes)),
        ids=tuple(f"i{item}" for item in range(len(labels))),
        **columns,
    )


def classes_of(found, items):
    return set(found.labels[items].tolist())


def sides_by_class(found, train, validation):
    """The fixed split in which the first classes train, the next validate and the rest test."""
    return np.array(
        ["train" if label < train else "validation" if label < train + validation else "test" for label in found.labels]
    )


def refusal(splitter, found):
    with pytest.raises(DataError) as caught:
        splitter(found)
    assert "\n" not in caught.value.message
    return caught.value.message


def test_the_shares_are_of_all_classes_and_of_the_training_classes():
    counts = ByFraction(train=0.5, validation=0.15)(catalogue()).counts()
    assert {side: count["classes"] for side, count in counts.items()} == {"train": 17, "validation": 3, "test": 20}
    counts = ByFraction(train=0.75, validation=0.2)(catalogue()).counts()
    assert {side: count["classes"] for side, count in counts.items()} == {"train": 24, "validation": 6, "test": 10}
    counts = ByFraction(validation=0)(catalogue()).counts()
    assert counts["validation"] == {"images": 0, "classes": 0}
    # A small share still validates on two classes: one alone has nothing to be told from.
    assert ByFraction(validation=0.01)(catalogue()).counts()["validation"]["classes"] == 2


def test_the_draw_follows_the_seed_and_the_class_names_alone():
    found = catalogue()
    first = ByFraction(seed=0)(found)
    assert ByFraction(seed=0)(found).fingerprint == first.fingerprint
    assert len({ByFraction(seed=seed)(found).fingerprint for seed in range(10)}) == 10
    reversed_items = Catalogue(
        name="other order",
        reader=FeatureArray(found.features[::-1]),
        labels=found.labels[::-1],
        class_names=found.class_names,
        ids=found.ids[::-1],
    )
    assert classes_of(reversed_items, ByFraction(seed=0)(reversed_items).train) == classes_of(found, first.train)


def test_every_class_is_drawn_for_training_about_equally_often():
    found = catalogue(classes=10, per_class=2)
    times = np.zeros(10)
    for seed in range(400):
        times[list(classes_of(found, ByFraction(validation=0, seed=seed)(found).train))] += 1
    # Binomial(400, 0.5) has standard deviation 10; five of them never happen in ten draws.
    assert np.abs(times - 200).max() < 50


def test_the_first_half_in_order_trains():
    made = FirstClasses(validation=0)(catalogue())
    assert classes_of(catalogue(), made.train) == set(range(20))
    assert classes_of(catalogue(classes=5), FirstClasses(validation=0)(catalogue(classes=5)).test) == {2, 3, 4}
    assert (
        FirstClasses(train=0.29, validation=0)(catalogue(classes=100, per_class=2)).counts()["train"]["classes"] == 29
    )


def test_classes_by_name_leave_the_rest_to_the_other_side():
    found = catalogue()
    only_test = ByClasses(test=["c01", "c02"], validation=0)(found)
    assert classes_of(found, only_test.test) == {1, 2}
    assert only_test.counts()["train"]["classes"] == 38
    only_train = ByClasses(train=["c01", "c02"], validation=["c03", "c04"])(found)
    assert classes_of(found, only_train.validation) == {3, 4}
    assert only_train.counts()["test"]["classes"] == 36
    both = ByClasses(train=["c01", "c02"], test=["c05", "c06"], validation=0)(found)
    assert both.counts()["train"]["classes"] + both.counts()["test"]["classes"] == 4


def test_a_mistyped_class_is_answered_with_the_nearest():
    assert "no class 'c0 1'; did you mean 'c01'? (40 known)" in refusal(ByClasses(test=["c0 1"]), catalogue())


def test_a_class_on_two_lists_is_named():
    words = refusal(ByClasses(train=["c01", "c02"], test=["c02", "c03"]), catalogue())
    assert "class 'c02' is on the train and on the test side" in words
    words = refusal(ByClasses(train=["c01", "c02"], validation=["c02", "c03"], test=["c05", "c06"]), catalogue())
    assert "class 'c02' is on the train and on the validation side" in words


def test_groups_are_held_out_whole():
    groups = tuple(("Latin", "Greek", "Cyrillic", "Armenian")[label % 4] for label in range(40))
    found = catalogue(class_groups=groups)
    made = ByGroups(test=["Greek", "Armenian"], validation=0.2)(found)
    assert {groups[label] for label in classes_of(found, made.test)} == {"Greek", "Armenian"}
    assert {groups[label] for label in classes_of(found, made.validation)} <= {"Latin", "Cyrillic"}
    assert made.counts()["validation"]["classes"] == 4
    made = ByGroups(test=["Greek"], train=["Latin"], validation=0)(found)
    assert {groups[label] for label in classes_of(found, made.train)} == {"Latin"}
    assert "no group 'Greec'; did you mean 'Greek'?" in refusal(ByGroups(test=["Greec"]), found)
    assert "are on the train and on the test side" in refusal(ByGroups(test=["Greek"], train=["Greek"]), found)
    assert "has no groups" in refusal(ByGroups(test=["Greek"]), catalogue())
    every = ByGroups(test=["Latin", "Greek", "Cyrillic", "Armenian"])
    assert "the train side needs at least 2 classes and has 0" in refusal(every, found)


def test_the_data_sets_own_validation_side_is_used():
    plain = catalogue()
    found = catalogue(fixed_split=sides_by_class(plain, 20, 5))
    assert classes_of(found, Predefined()(found).validation) == set(range(20, 25))
    found = catalogue(fixed_split=sides_by_class(plain, 20, 0))
    assert classes_of(found, Predefined()(found).validation) < set(range(20))
    assert len(Predefined(validation=0)(found).validation) == 0
    assert "defines no split" in refusal(Predefined(), plain)


def test_a_class_that_trains_and_tests_is_named():
    plain = catalogue()
    sides = np.array(["train" if item % 2 else "test" for item in range(len(plain))])
    words = refusal(Predefined(), catalogue(fixed_split=sides))
    assert "are on the train and on the test side. The sides of a split must have no class in common." in words
    assert "more" in words


def test_a_data_set_without_a_test_side_is_refused():
    found = catalogue(fixed_split=np.full(120, "train"))
    assert "the test side needs at least 2 classes and has 0" in refusal(Predefined(), found)


def test_marked_queries_and_gallery_are_those_of_the_test_side():
    plain = catalogue()
    is_query = np.arange(120) % 3 == 0
    found = catalogue(is_query=is_query, is_gallery=~is_query)
    made = FirstClasses(validation=0)(found)
    assert set(made.queries) | set(made.gallery) == set(made.test)
    assert not set(made.queries) & set(made.gallery)
    assert is_query[made.queries].all()
    assert "queries in a gallery of" in made.describe()
    assert "queries" not in FirstClasses()(plain).describe()
    assert FirstClasses(validation=0)(plain).fingerprint != made.fingerprint
    assert "no test item of forty is marked as query" in refusal(
        FirstClasses(), catalogue(is_query=np.zeros(120, bool))
    )


@pytest.mark.parametrize(
    ("splitter", "classes", "words"),
    [
        (ByFraction(train=0.0), 40, "the train side needs at least 2 classes and has 0"),
        (ByFraction(train=1.0), 40, "the test side needs at least 2 classes and has 0"),
        (ByFraction(), 3, "the test side needs at least 2 classes and has 1"),
        (ByFraction(), 4, "2 training classes are too few to hold out 2 of them for validation. Set validation=0"),
        (FirstClasses(train=0.01), 40, "the train side needs at least 2 classes and has 0"),
        (ByClasses(test=["c01"]), 40, "the test side needs at least 2 classes and has 1"),
        (
            ByClasses(test=["c01", "c02"], validation=["c03"]),
            40,
            "the validation side needs at least 2 classes and has 1",
        ),
    ],
)
def test_a_side_that_is_too_small_is_said(splitter, classes, words):
    assert words in refusal(splitter, catalogue(classes=classes))


def test_settings_out_of_range_are_refused():
    for wrong in ({"train": 1.5}, {"validation": -0.1}, {"validation": 1}, {"seed": -1}, {"seed": 0.5}):
        with pytest.raises(ConfigError, match="ByFraction"):
            ByFraction(**wrong)
    with pytest.raises(ConfigError, match="train or test must list class names"):
        ByClasses()
    with pytest.raises(ConfigError, match="has no setting 'trian'; did you mean 'train'"):
        split_catalogue(catalogue(), "fraction:trian=0.4")


def test_lists_come_from_the_command_line():
    made = split_catalogue(catalogue(), "classes:test=[c01,c02],validation=0")
    assert made.counts()["test"]["classes"] == 2
    numbered = catalogue(classes=4)
    object.__setattr__(numbered, "class_names", ("0", "1", "2", "3"))
    assert classes_of(numbered, split_catalogue(numbered, "classes:test=[0,3],validation=0").test) == {0, 3}
