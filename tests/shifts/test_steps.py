"""Steps are named as in the paper, have the start in the middle and rise where they must."""

import numpy as np
import pytest

from tests.helpers.two_groups import gaussian_catalogue
from unseen.core.errors import ConfigError
from unseen.shifts.class_swaps import ClassSplit
from unseen.shifts.incremental_distance import ClassSplitDistances
from unseen.shifts.steps import SwapSchedule, swap_steps


@pytest.fixture(scope="module")
def distances():
    catalogue = gaussian_catalogue(mixed=0.3)
    return ClassSplitDistances(catalogue.reader.features, catalogue.labels)


START = ClassSplit(np.arange(20), np.arange(20, 40))


def test_steps_go_from_the_easiest_over_the_start_to_the_hardest(distances):
    schedule = SwapSchedule(swaps=2, easier=2, harder=3, removals=3)
    calls = []
    steps = swap_steps(distances, START, schedule, lambda *call: calls.append(call))
    assert [step.name for step in steps] == ["-4", "-2", "0", "2", "4", "6", "R2", "R4", "R6"]
    assert [len(step.classes.train) for step in steps] == [20] * 6 + [18, 16, 14]
    assert [(done, total) for done, total, _ in calls] == [(number, 9) for number in range(1, 10)]
    assert all(map(np.array_equal, steps[2].classes, START))
    found = [step.distance for step in steps]
    assert found == sorted(found)
    samples = [distances.between(step.classes, "sample") for step in steps]
    assert samples == sorted(samples)


def test_removal_begins_from_the_last_swap_that_was_measured(distances):
    steps = {
        step.name: step for step in swap_steps(distances, START, SwapSchedule(swaps=2, easier=0, harder=2, removals=1))
    }
    assert set(steps["R2"].classes.train) < set(steps["4"].classes.train)
    assert set(steps["R2"].classes.test) < set(steps["4"].classes.test)


def test_removal_ends_where_the_distance_falls():
    # Class means on a line: the foreign classes are also the far ones, so that their removal draws the sides together.
    means = np.concatenate([np.r_[np.linspace(0, 1, 12), -300.0, -400.0], np.r_[np.linspace(2, 3, 12), 300.0, 400.0]])
    order = [*range(12), 26, 27, *range(14, 26), 12, 13]
    features = means[order][:, None] * np.ones((1, 2))
    labels = np.arange(28)
    start = ClassSplit(labels[:14], labels[14:])
    steps = swap_steps(
        ClassSplitDistances(features, labels), start, SwapSchedule(swaps=2, easier=0, harder=2, removals=3)
    )
    names = [step.name for step in steps]
    found = [step.distance for step in steps]
    removed = [place for place, name in enumerate(names) if name.startswith("R")]
    assert all(found[place] >= 0.98 * found[place - 1] for place in removed)


def test_a_step_is_two_percent_of_the_smaller_side_unless_it_is_stated():
    assert SwapSchedule().swaps_for(ClassSplit(np.arange(100), np.arange(100, 250))) == 2
    assert SwapSchedule().swaps_for(ClassSplit(np.arange(9), np.arange(9, 18))) == 1
    assert SwapSchedule(swaps=7).swaps_for(START) == 7


@pytest.mark.parametrize("setting", ["swaps", "easier", "harder", "removals", "history", "easier_history"])
def test_a_negative_setting_is_refused(setting):
    with pytest.raises(ConfigError, match=f"SwapSchedule: {setting} must be an integer"):
        SwapSchedule(**{setting: -1})


def test_the_start_alone_is_a_schedule(distances):
    steps = swap_steps(distances, START, SwapSchedule(easier=0, harder=0, removals=0))
    assert [step.name for step in steps] == ["0"]


def test_the_same_schedule_returns_the_same_steps(distances):
    catalogue = gaussian_catalogue(mixed=0.3)
    schedule = SwapSchedule(swaps=2, easier=3, harder=3, removals=2)
    other = swap_steps(ClassSplitDistances(catalogue.reader.features, catalogue.labels), START, schedule)
    for one, two in zip(swap_steps(distances, START, schedule), other, strict=True):
        assert all(map(np.array_equal, one.classes, two.classes))
        # The distances were followed along another path before: equal but for rounding.
        assert one.distance == pytest.approx(two.distance, rel=1e-9)
