from typing import Any

import pytest
import torch

from unseen.core.errors import ConfigError
from unseen.core.registry import REGISTRIES
from unseen.training.schedules import Constant, Cosine, Step, apply_schedule


@pytest.mark.parametrize("name", REGISTRIES["schedule"].names())
def test_a_factor_stays_between_nought_and_one_and_warms_up(name):
    schedule = REGISTRIES["schedule"][name](warmup=10)
    factors = [schedule.factor(step, 100) for step in range(100)]
    assert all(0 <= factor <= 1 for factor in factors)
    assert factors[0] == pytest.approx(0.1)
    assert factors[:10] == sorted(factors[:10])


def test_closed_forms():
    assert Constant().factor(50, 100) == 1
    assert Cosine().factor(0, 100) == 1
    assert Cosine().factor(50, 100) == pytest.approx(0.5)
    assert Cosine(floor=0.1).factor(100, 100) == pytest.approx(0.1)
    assert [Step(at=[0.5, 0.8], decay=0.1).factor(step, 10) for step in (4, 5, 8)] == pytest.approx([1, 0.1, 0.01])


def test_each_group_keeps_its_own_base_rate():
    one, two = (torch.nn.Parameter(torch.zeros(1)) for _ in range(2))
    groups: list[dict[str, Any]] = [{"params": [one]}, {"params": [two], "lr": 5.0}]
    optimizer = torch.optim.SGD(groups, lr=1.0)
    for factor in (0.1, 0.5, 0.25):
        apply_schedule(optimizer, factor)
        assert [group["lr"] for group in optimizer.param_groups] == [factor, 5 * factor]


def test_bad_settings_are_refused():
    with pytest.raises(ConfigError, match="Cosine: warmup"):
        Cosine(warmup=-1)
    with pytest.raises(ConfigError, match="Step: at"):
        Step(at=[1.5])
