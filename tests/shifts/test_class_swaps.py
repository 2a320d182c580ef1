"""Swaps are those of the published script, keep every class, and move the sides apart or together."""

from itertools import pairwise

import numpy as np
import pytest

from tests.helpers.two_groups import gaussian_catalogue
from unseen.evaluation.frechet import class_means, frechet_distance
from unseen.shifts.class_swaps import MIN_CLASSES, ClassSplit, own_side_margin, remove_classes, swap_classes

# The two groups that `gaussian_catalogue` makes: half of each starts on the other side.
PARTED = ClassSplit(np.r_[0:10, 20:30], np.r_[10:20, 30:40])


@pytest.fixture(scope="module")
def means():
    catalogue = gaussian_catalogue()
    return class_means(catalogue.reader.features, catalogue.labels)


@pytest.fixture
def start(means):
    half = len(means) // 2
    return ClassSplit(np.arange(half), np.arange(half, len(means)))


def loop_reference(means, train, test, swaps, iterations, history, easier):
    """The class swaps of Milbich et al. as their script does them, with plain lists and loops."""
    train, test = [int(label) for label in train], [int(label) for label in test]
    used_train: list[int] = []
    used_test: list[int] = []
    found = []
    for _ in range(iterations):
        found.append((list(train), list(test)))
        middle_train = np.mean([means[label] for label in train], axis=0)
        middle_test = np.mean([means[label] for label in test], axis=0)

        def cost(label, other, own):
            return np.linalg.norm(means[label] - other) - np.linalg.norm(means[label] - own)

        train_order = sorted(range(len(train)), key=lambda slot: cost(train[slot], middle_test, middle_train))
        test_order = sorted(range(len(test)), key=lambda slot: cost(test[slot], middle_train, middle_test))
        if easier:
            train_order, test_order = train_order[::-1], test_order[::-1]
        for turn in range(swaps):
            one = next(slot for slot in train_order[turn:] if slot not in used_train[-history:])
            two = next(slot for slot in test_order[turn:] if slot not in used_test[-history:])
            train[one], test[two] = test[two], train[one]
            used_train.append(one)
            used_test.append(two)
    return found


@pytest.mark.parametrize(("swaps", "history", "easier"), [(1, 5, False), (2, 5, False), (3, 4, True), (2, 9, True)])
def test_swaps_are_those_of_a_plain_loop(means, start, swaps, history, easier):
    settings = {"swaps": swaps, "iterations": 6, "history": history, "easier": easier}
    found = [(side.train.tolist(), side.test.tolist()) for side in swap_classes(means, start, **settings)]
    assert found == loop_reference(means, start.train, start.test, **settings)


def test_swaps_keep_the_union_and_the_size_of_both_sides_and_the_start_as_it_was(means, start):
    before = [side.copy() for side in start]
    for sides in swap_classes(means, start, swaps=2, iterations=12, history=5):
        assert sorted([*sides.train, *sides.test]) == list(range(len(means)))
        assert len(sides.train) == len(sides.test) == len(means) // 2
    assert all((old == new).all() for old, new in zip(before, start, strict=True))


def distances(means, path):
    return [frechet_distance(means[sides.train], means[sides.test]) for sides in path]


def test_harder_swaps_raise_the_distance_until_the_groups_are_parted(start):
    catalogue = gaussian_catalogue(mixed=0.3, gap=20.0)
    means = class_means(catalogue.reader.features, catalogue.labels)
    # Six classes of each side are on the wrong side; six swaps part the two groups.
    path = list(swap_classes(means, start, swaps=2, iterations=4, history=5))
    assert (np.diff(distances(means, path)) > 0).all()
    assert sorted(path[-1].train) == [*range(6, 20), *range(34, 40)]
    assert sorted(path[-1].test) == [*range(6), *range(20, 34)]


def test_easier_swaps_lower_the_distance_of_parted_groups(means):
    found = distances(means, swap_classes(means, PARTED, swaps=2, iterations=5, history=30, easier=True))
    assert (np.diff(found) < 0).all()


def test_a_slot_is_not_swapped_again_while_it_is_in_the_history(means, start):
    path = list(swap_classes(means, start, swaps=1, iterations=8, history=5))
    slots = [np.flatnonzero(one.train != two.train).tolist() for one, two in pairwise(path)]
    for at, own in enumerate(slots):
        assert len(own) == 1
        assert own[0] not in [slot for before in slots[max(0, at - 5) : at] for slot in before]


def test_a_history_longer_than_half_a_side_does_not_stop_the_swaps(means):
    few = ClassSplit(np.arange(4), np.arange(36, 40))
    path = list(swap_classes(means, few, swaps=1, iterations=5, history=100))
    assert all((one.train != two.train).any() for one, two in pairwise(path))


def test_swaps_beyond_the_slots_are_left_out(means):
    few = ClassSplit(np.arange(3), np.arange(37, 40))
    last = list(swap_classes(means, few, swaps=10, iterations=2, history=1))[-1]
    assert sorted([*last.train, *last.test]) == [0, 1, 2, 37, 38, 39]


def test_removal_takes_the_classes_of_smallest_margin_from_both_sides_nested(means, start):
    before = start
    for sides in remove_classes(means, start, removals=2, iterations=4):
        for own, old, other in ((sides.train, before.train, before.test), (sides.test, before.test, before.train)):
            assert len(own) == len(old) - 2
            gone = np.isin(old, own, invert=True)
            cost = own_side_margin(means, old, other)
            assert cost[gone].max() <= cost[~gone].min()
        before = sides


def test_removal_raises_the_distance_and_ends_before_a_side_is_too_small(means):
    path = list(remove_classes(means, PARTED, removals=3, iterations=100))
    assert [len(sides.train) for sides in path] == [17, 14, 11, 8]
    assert min(map(len, path[-1])) >= MIN_CLASSES
    assert (np.diff(distances(means, [PARTED, *path])) > 0).all()


def test_nothing_moves_when_classes_are_renamed(means, start):
    order = np.random.default_rng(1).permutation(len(means))
    renamed = np.empty_like(means)
    renamed[order] = means
    plain = swap_classes(means, start, swaps=2, iterations=5, history=5)
    other = swap_classes(renamed, ClassSplit(order[start.train], order[start.test]), swaps=2, iterations=5, history=5)
    for one, two in zip(plain, other, strict=True):
        assert (order[one.train] == two.train).all()
