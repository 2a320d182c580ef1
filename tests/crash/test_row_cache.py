"""Caches whose writers are killed: never a wrong row, never two writers at once."""

import os
import time
from functools import partial

import numpy as np
import pytest

from tests.crash.harness import Forked, dies_at, fresh_draws, killed, killed_together
from unseen.data.row_cache import BLOCK, RowCache, cached_rows

SHAPE = (40 * BLOCK + 7, 50)
ROWS = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)
KEY = {"weights": "abc"}


def make(folder, acknowledge=lambda value: None, seconds=0.0):
    """Fill the cache; each computed block is acknowledged."""

    def compute(blocks):
        for block in blocks:
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                pass
            acknowledge([os.getpid(), block.start])
            yield ROWS[block.start : block.stop]

    return cached_rows(RowCache(folder, KEY, SHAPE, "float32", "rows"), compute, quiet=True)


@pytest.mark.crash
def test_twenty_kills_at_random_moments_leave_no_wrong_row_and_little_to_do_again(tmp_path):
    draws = fresh_draws()
    for attempt in range(10):
        folder = tmp_path / str(attempt)
        computed = []
        for _ in range(2):
            computed += killed(partial(make, folder, seconds=0.002), draws.uniform(0.005, 0.12))
        computed += _rest(folder)
        assert np.array_equal(make(folder, _nobody), ROWS)
        # Each kill costs at most the block that was in hand.
        assert len({start for _, start in computed}) == 41 <= len(computed) <= 43


def _rest(folder):
    computed: list[list[int]] = []
    assert np.array_equal(make(folder, computed.append), ROWS)
    return computed


def _nobody(value):
    raise AssertionError("a whole cache was computed again")


@pytest.mark.crash
@pytest.mark.parametrize(("point", "left"), [("cache.before_sum", 41), ("cache.after_sum", 40)])
def test_a_kill_between_a_block_and_its_sum_costs_that_block(tmp_path, point, left):
    dies_at(point, lambda acknowledge: make(tmp_path))
    computed: list[list[int]] = []
    assert np.array_equal(make(tmp_path, computed.append), ROWS)
    assert len(computed) == left


@pytest.mark.crash
def test_two_processes_at_once_compute_every_block_once_and_the_second_takes_over_from_a_killed_first(tmp_path):
    told = killed_together([lambda say: make(tmp_path, say, 0.002)] * 2, 30)
    starts = [start for each in told for _, start in each]
    assert sorted(starts) == list(range(0, SHAPE[0], BLOCK))
    assert np.array_equal(make(tmp_path, _nobody), ROWS)

    first = Forked(lambda say: make(tmp_path / "other", say, 0.02))
    first.listen()
    second = Forked(lambda say: make(tmp_path / "other", say))
    first.kill()
    assert second.end() == 0
    starts = [start for _, start in [*first.acknowledged, *second.acknowledged]]
    assert set(starts) == set(range(0, SHAPE[0], BLOCK))
    assert len(starts) <= 42
    assert np.array_equal(make(tmp_path / "other", _nobody), ROWS)
