"""A ladder by groups: equal sides, one group tests, the rest train, near ones first; what cannot be is refused."""

from dataclasses import replace

import numpy as np
import pytest

from tests.helpers.many_groups import SIZES, grouped_catalogue
from tests.helpers.two_groups import ladder_source
from unseen.core.errors import ConfigError, DataError
from unseen.evaluation.frechet import class_means, frechet_distance
from unseen.shifts import LadderSource, build_group_ladder, read_ladder, split_of_rung, write_ladder
from unseen.shifts.group_ladder import split_by_groups

LARGE = [name for name, size in SIZES.items() if size >= 8]


@pytest.fixture(scope="module")
def catalogue():
    return grouped_catalogue()


def ladder_by(catalogue, **settings):
    return build_group_ladder(ladder_source(catalogue), **settings)


@pytest.fixture(scope="module")
def ladder(catalogue):
    return ladder_by(catalogue)


def group_of(catalogue):
    return dict(zip(catalogue.class_names, catalogue.class_groups, strict=True))


def test_every_rung_has_equally_many_classes_on_each_side(catalogue, ladder):
    assert {rung.step for rung in ladder.rungs} == {"mixed", *LARGE}
    assert {len(rung.test) for rung in ladder.rungs} == {9}, "those of the smallest group that is large enough"
    trained = sum(SIZES.values()) - 20
    assert {len(rung.train) + len(rung.validation) for rung in ladder.rungs} == {trained}
    assert {len(rung.train) for rung in ladder.rungs} == {3 * trained // 4}
    assert {(step.train, step.test) for step in ladder.steps} == {(trained, 9)}


def test_one_group_tests_and_all_others_train(catalogue, ladder):
    groups = group_of(catalogue)
    for rung in ladder.rungs:
        trained = {groups[name] for name in [*rung.train, *rung.validation]}
        tested = {groups[name] for name in rung.test}
        assert not {*rung.train, *rung.validation} & {*rung.test}
        if rung.step == "mixed":
            assert len(tested) > 1
            assert tested <= trained
        else:
            assert tested == {rung.step}
            assert rung.step not in trained


def test_distances_are_those_of_the_sides_and_rise(catalogue, ladder):
    labels = {name: label for label, name in enumerate(catalogue.class_names)}
    features = catalogue.reader.features.astype(np.float64)
    means = class_means(features, catalogue.labels)
    found = [rung.class_distance for rung in ladder.rungs]
    assert found == sorted(set(found))
    assert ladder.rungs[0].step == "mixed"
    assert ladder.rungs[-1].step == "far"
    for rung in ladder.rungs:
        train, test = ([labels[name] for name in side] for side in ([*rung.train, *rung.validation], rung.test))
        assert rung.class_distance == pytest.approx(frechet_distance(means[sorted(train)], means[sorted(test)]))
        rows = [features[np.isin(catalogue.labels, side)] for side in (train, test)]
        assert rung.sample_distance == pytest.approx(frechet_distance(*rows))


def test_steps_share_as_many_training_classes_as_they_can(catalogue):
    splits = split_by_groups(catalogue)
    groups = np.array(catalogue.class_groups)
    one, other = (set(splits[name].train.tolist()) for name in ("middle", "far"))
    # What only one of them trains on belongs to the other's group, or fills a place that such a class leaves free.
    foreign = {label for label in one - other if groups[label] != "far"}
    assert len(foreign) <= len([label for label in other if groups[label] == "middle"])
    assert one & other


def test_the_same_data_gives_the_same_ladder_and_another_seed_another_draw(catalogue, ladder, tmp_path):
    assert ladder_by(grouped_catalogue()).hash == ladder.hash
    other = ladder_by(catalogue, seed=1)
    assert {rung.step: rung.test for rung in other.rungs} != {rung.step: rung.test for rung in ladder.rungs}
    write_ladder(tmp_path / "ladder.json", ladder)
    again = read_ladder(tmp_path / "ladder.json")
    assert again == ladder
    assert again.is_by_groups


def test_a_rung_is_a_split_whose_facts_name_its_group(catalogue, ladder):
    number = len(ladder.rungs)
    split = split_of_rung(ladder, catalogue, number)
    assert split.facts["by"] == "groups"
    assert split.facts["step"] == "far"
    assert split.classes["test"] == 9


def test_some_rungs_are_chosen_evenly_with_both_ends_and_the_mixed_one(catalogue, ladder):
    some = ladder_by(catalogue, rungs=3)
    assert len(some.rungs) == 3
    assert some.steps == ladder.steps
    names = [rung.step for rung in some.rungs]
    assert names[0] == ladder.rungs[0].step
    assert names[-1] == ladder.rungs[-1].step
    assert "mixed" in names


def test_named_groups_alone_decide_how_many_classes_a_side_has(catalogue):
    made = ladder_by(catalogue, rungs=["middle", "mixed"])
    assert [rung.step for rung in made.rungs] == ["mixed", "middle"]
    assert {len(rung.test) for rung in made.rungs} == {14}
    assert {len(rung.train) + len(rung.validation) for rung in made.rungs} == {sum(SIZES.values()) - 14}


@pytest.mark.parametrize(
    ("changes", "settings", "error", "words"),
    [
        ({"class_groups": None}, {}, DataError, "its classes have no groups"),
        ({"class_groups": ("one",) * 46}, {}, DataError, "needs 2 groups of at least 8 classes; got 1"),
        ({"class_groups": ("mixed",) * 46}, {}, DataError, "a group is called 'mixed'"),
        ({"class_groups": ("one",) * 39 + ("two",) * 7}, {"rungs": ["one"]}, DataError, "too few to train on; got 7"),
        ({}, {"rungs": ["tiny"]}, DataError, "group 'tiny' is too small .* got 3"),
        ({}, {"rungs": ["midle"]}, ConfigError, "no group 'midle'; did you mean 'middle'"),
        ({}, {"rungs": ["far", "far"]}, ConfigError, "different groups"),
        ({}, {"rungs": ["mixed"]}, ConfigError, "different groups, at least one"),
        ({}, {"rungs": 2}, ConfigError, "has from 3 to 4 rungs; got 2"),
        ({}, {"rungs": 5}, ConfigError, "has from 3 to 4 rungs; got 5"),
        ({}, {"seed": -1}, ConfigError, "seed"),
    ],
)
def test_what_it_cannot_be_built_on_is_refused(catalogue, changes, settings, error, words):
    with pytest.raises(error, match=words):
        ladder_by(replace(catalogue, **changes), **settings)


def test_features_of_other_items_are_refused(catalogue):
    with pytest.raises(DataError, match="a row for each item"):
        LadderSource(catalogue, np.zeros((3, 2)))
