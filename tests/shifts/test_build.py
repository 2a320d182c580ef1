"""A ladder holds sides, distances and episodes, is the same for the same data, and refuses unfit data."""

from pathlib import Path

import numpy as np
import pytest

from tests.helpers.two_groups import gaussian_catalogue, ladder_source, start_of
from unseen.core.errors import ConfigError, DataError
from unseen.data import load_catalogue, split_catalogue
from unseen.shifts import LadderSettings, LadderSource, SwapSchedule, build_ladder

CUB = Path(__file__).parents[3] / "shared" / "data" / "cub160_efficientnet_lite0.npz"
SCHEDULE = SwapSchedule(swaps=2, easier=3, harder=4, removals=3)


def ladder_of(catalogue, **settings):
    return ladder_from(start_of(catalogue), ladder_source(catalogue), **settings)


def ladder_from(start, source, **settings):
    return build_ladder(source, start, LadderSettings(**{"schedule": SCHEDULE, **settings}))


@pytest.fixture(scope="module")
def ladder():
    return ladder_of(gaussian_catalogue(mixed=0.3), rungs=5)


def test_rungs_rise_and_part_the_classes_into_three_sides(ladder):
    found = [rung.class_distance for rung in ladder.rungs]
    assert found == sorted(set(found))
    for rung in ladder.rungs:
        sides = [set(rung.train), set(rung.validation), set(rung.test)]
        assert sum(map(len, sides)) == len(set.union(*sides))
        both = len(rung.train) + len(rung.validation)
        assert len(rung.train) == 3 * both // 4
        if not rung.step.startswith("R"):
            assert set.union(*sides) == set(ladder.classes)
        else:
            assert both == len(rung.test) < 20


def test_rungs_are_steps_with_their_distances(ladder):
    steps = {step.name: step for step in ladder.steps}
    for rung in ladder.rungs:
        step = steps[rung.step]
        assert (rung.class_distance, rung.sample_distance) == (step.class_distance, step.sample_distance)
        assert (len(rung.train) + len(rung.validation), len(rung.test)) == (step.train, step.test)


def test_every_image_is_listed_under_its_class(ladder):
    catalogue = gaussian_catalogue(mixed=0.3)
    listed = [name for items in ladder.classes.values() for name in items]
    assert sorted(listed) == sorted(catalogue.ids)
    assert {len(episodes) for episodes in ladder.support.values()} == {10}


def test_the_same_data_gives_the_same_ladder_and_another_seed_another_validation(ladder):
    assert ladder_of(gaussian_catalogue(mixed=0.3), rungs=5).hash == ladder.hash
    other = ladder_of(gaussian_catalogue(mixed=0.3), rungs=5, seed=1)
    assert [rung.test for rung in other.rungs] == [rung.test for rung in ladder.rungs]
    assert [rung.validation for rung in other.rungs] != [rung.validation for rung in ladder.rungs]
    assert other.support != ladder.support


def test_rungs_are_chosen_by_name_and_by_distance(ladder):
    catalogue = gaussian_catalogue(mixed=0.3)
    named = ladder_of(catalogue, rungs=["R2", "0", "-2"])
    assert [rung.step for rung in named.rungs] == ["-2", "0", "R2"]
    targets = [rung.class_distance for rung in named.rungs]
    assert [rung.step for rung in ladder_of(catalogue, rungs=targets).rungs] == ["-2", "0", "R2"]


def test_validation_classes_of_the_start_are_training_classes_of_the_ladder():
    catalogue = gaussian_catalogue()
    start = split_catalogue(catalogue, "first:validation=0.3")
    made = ladder_from(start, ladder_source(catalogue), rungs=["0"])
    assert {*made.rungs[0].train, *made.rungs[0].validation} == set(catalogue.class_names[:20])


def test_what_it_cannot_be_built_on_is_refused():
    catalogue = gaussian_catalogue()
    with pytest.raises(DataError, match="a row for each item"):
        LadderSource(catalogue, np.zeros((3, 2)))
    small = gaussian_catalogue(classes=14)
    with pytest.raises(DataError, match="at least 8 classes on each side; got '7 and 7'"):
        ladder_of(small)
    with pytest.raises(ConfigError, match="has no step 'R99'"):
        ladder_of(catalogue, rungs=["R99"])


@pytest.mark.skipif(not CUB.exists(), reason="the features of CUB are not here")
def test_a_short_ladder_of_cub_rises_on_both_sides_of_its_start():
    catalogue = load_catalogue(f"features={CUB}")
    # Every tenth dimension: the classes are those of CUB, the time is not.
    features = np.asarray(ladder_source(catalogue).features[:, ::10], np.float32)
    start = split_catalogue(catalogue, "first:validation=0")
    steps = ["-20", "-10", "0", "6", "10", "30", "R22"]
    schedule = SwapSchedule(swaps=2, easier=10, harder=15, removals=11)
    ladder = ladder_from(start, LadderSource(catalogue, features), schedule=schedule, rungs=steps)
    assert [rung.step for rung in ladder.rungs] == steps
    for level in ("class_distance", "sample_distance"):
        found = [getattr(rung, level) for rung in ladder.rungs]
        assert found == sorted(found)
    assert ladder.rungs[-1].class_distance > 1.5 * ladder.rungs[2].class_distance > 3 * ladder.rungs[0].class_distance


def test_samples_are_measured_at_some_steps_and_at_every_rung(ladder):
    catalogue = gaussian_catalogue(mixed=0.3)
    some = ladder_of(catalogue, rungs=3, samples=2)
    every = {step.name: step.sample_distance for step in ladder_of(catalogue, rungs=3, samples=None).steps}
    names = [step.name for step in some.steps]
    measured = {step.name: step.sample_distance for step in some.steps if step.sample_distance is not None}
    assert set(measured) == {names[0], names[-1], *(rung.step for rung in some.rungs)}
    assert None not in every.values()
    assert all(measured[name] == pytest.approx(every[name], rel=1e-9) for name in measured)
    with pytest.raises(ConfigError, match="samples must be an integer"):
        ladder_of(catalogue, samples=-1)
