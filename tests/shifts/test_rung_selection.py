"""Rungs rise in distance, hold the start, and are those that were asked for."""

import numpy as np
import pytest

from unseen.core.errors import ConfigError
from unseen.shifts import PUBLISHED_LADDERS
from unseen.shifts.class_swaps import ClassSplit
from unseen.shifts.rung_selection import choose_by_distance, choose_by_name, choose_evenly, rising_steps
from unseen.shifts.steps import Step

NAMES = ["-6", "-4", "-2", "0", "2", "4", "6", "8", "R2", "R4"]
VALUES = [13.0, 12.0, 16.0, 20.0, 30.0, 29.0, 45.0, 44.0, 60.0, 80.0]
NOWHERE = ClassSplit(np.empty(0, np.int64), np.empty(0, np.int64))
STEPS = [Step(name, NOWHERE, value) for name, value in zip(NAMES, VALUES, strict=True)]


def names(steps):
    return [step.name for step in steps]


def test_only_new_extremes_rise():
    assert names(rising_steps(STEPS)) == ["-4", "-2", "0", "2", "6", "R2", "R4"]


@pytest.mark.parametrize("count", [3, 4, 5, 6, 7])
def test_even_rungs_rise_and_hold_the_start_and_the_hardest(count):
    chosen = choose_evenly(STEPS, count)
    found = [step.distance for step in chosen]
    assert len(chosen) == count
    assert found == sorted(set(found))
    assert {"0", "R4"} <= set(names(chosen))
    # The start, at 20, stands for the easiest, at 12, where rungs are more than 16 apart.
    assert ("-4" in names(chosen)) == (count > 5)


def test_a_start_as_near_as_can_be_is_the_easiest_rung():
    near = [Step(name, NOWHERE, value) for name, value in (("-2", 2.9), ("0", 3.0), ("2", 60.0), ("R2", 133.0))]
    assert names(choose_evenly(near, 3)) == ["0", "2", "R2"]
    assert names(choose_evenly(near, 4)) == ["-2", "0", "2", "R2"]


def test_even_rungs_are_evenly_spaced_where_steps_allow():
    steps = [Step(str(number), NOWHERE, float(number)) for number in range(101)]
    assert names(choose_evenly(steps, 5)) == ["0", "25", "50", "75", "100"]


@pytest.mark.parametrize("count", [2, 8])
def test_a_number_of_rungs_that_the_ladder_lacks_is_refused(count):
    with pytest.raises(
        ConfigError, match=f"7 rising steps has from 3 to 7 rungs; got {count}. Use a number in that range"
    ):
        choose_evenly(STEPS, count)


def test_the_nearest_rising_step_is_taken_for_a_distance():
    assert names(choose_by_distance(STEPS, [58, 12, 31])) == ["-4", "2", "R2"]


@pytest.mark.parametrize(("targets", "words"), [([5], "from 12 to 80; got 5"), ([12, 12.5], "same nearest step")])
def test_distances_that_cannot_be_told_apart_or_reached_are_refused(targets, words):
    with pytest.raises(ConfigError, match=words):
        choose_by_distance(STEPS, targets)


def test_named_steps_come_in_the_order_of_their_distance():
    assert names(choose_by_name(STEPS, ["R2", "-6", "8", "0"])) == ["-6", "0", "8", "R2"]


@pytest.mark.parametrize(
    ("wanted", "words"), [(["R22"], "no step 'R22'; did you mean 'R2'"), (["0", "0"], "different")]
)
def test_names_that_no_step_has_or_that_occur_twice_are_refused(wanted, words):
    with pytest.raises(ConfigError, match=words):
        choose_by_name(STEPS, wanted)


@pytest.mark.parametrize(("data", "rungs"), [("cub200", 9), ("cars196", 8), ("sop", 8)])
def test_the_published_steps_belong_to_the_published_schedule(data, rungs):
    published = PUBLISHED_LADDERS[data]
    schedule = published.schedule
    assert schedule.swaps is not None
    swapped = [-schedule.swaps * number for number in range(schedule.easier + 1)]
    swapped += [schedule.swaps * number for number in range(schedule.harder + 1)]
    removed = [f"R{schedule.swaps * number}" for number in range(1, schedule.removals + 1)]
    assert isinstance(published.rungs, list)
    assert len(published.rungs) == rungs
    assert set(published.rungs) <= {*map(str, swapped), *removed}
