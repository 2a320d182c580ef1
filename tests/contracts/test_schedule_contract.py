"""What every registered learning-rate schedule must do; a new one needs a case here."""

import json
import math

import pytest

import unseen.training
from tests.contracts.cases import case_of
from tests.contracts.loss_cases import is_numeric, settings_of
from unseen.core import registry
from unseen.core.config import build, record_of
from unseen.core.errors import ConfigError

NAMES = registry.schedule.names()
CASES = {"constant": (1.0, 1.0, 1.0), "cosine": (1.0, 0.5, 0.0), "step": (1.0, 1.0, 0.01)}
"""The factor of the default settings at the start, in the middle and at the end of a run."""


@pytest.mark.parametrize("name", NAMES)
def test_its_value_at_the_start_in_the_middle_and_at_the_end(name):
    schedule = build(registry.schedule, name)
    expected = case_of(CASES, name, __file__)
    assert [schedule.factor(step, 1000) for step in (0, 500, 1000)] == pytest.approx(list(expected), abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("warmup", [0, 1, 7, 500])
@pytest.mark.parametrize("total", [1, 2, 100])
def test_factors_are_between_0_and_1_for_runs_of_any_length(name, warmup, total):
    schedule = build(registry.schedule, {"name": name, "warmup": warmup})
    factors = [schedule.factor(step, total) for step in range(total)]
    assert all(0 <= factor <= 1 for factor in factors)
    assert factors[0] == pytest.approx(1 / max(1, warmup))


@pytest.mark.parametrize("name", NAMES)
def test_after_the_warm_up_factors_never_rise(name):
    schedule = build(registry.schedule, {"name": name, "warmup": 20})
    factors = [schedule.factor(step, 200) for step in range(200)]
    assert factors[:20] == sorted(factors[:20])
    assert factors[20:] == sorted(factors[20:], reverse=True)


@pytest.mark.parametrize("name", NAMES)
def test_it_is_a_pure_function_of_the_step(name):
    schedule = build(registry.schedule, name)
    forwards = [schedule.factor(step, 50) for step in range(50)]
    backwards = [schedule.factor(step, 50) for step in reversed(range(50))]
    assert forwards == backwards[::-1]


@pytest.mark.parametrize("name", NAMES)
def test_its_configuration_survives_a_round_trip(name):
    record = json.loads(json.dumps(record_of(registry.schedule, build(registry.schedule, name))))
    assert record_of(registry.schedule, build(registry.schedule, record)) == record


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -1, "1", True, [1.0]], ids=str)
def test_bad_values_of_every_number_are_refused(name, bad):
    component = registry.schedule[name]
    numbers = [setting for setting, annotation in settings_of(component).items() if is_numeric(annotation)]
    assert "warmup" in numbers
    for setting in numbers:
        with pytest.raises(ConfigError, match=f"{component.__name__}: {setting}"):
            component(**{setting: bad})


@pytest.mark.parametrize("name", NAMES)
def test_it_is_exported(name):
    component = registry.schedule[name]
    assert getattr(unseen.training, component.__name__) is component
