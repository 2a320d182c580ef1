"""The embedding store, and what every sampler does that is fed by one."""

import numpy as np
import pytest

from unseen.core.errors import DataError
from unseen.core.registry import REGISTRIES
from unseen.samplers import BatchPosition, EmbeddingAwareBatches

FED = ("ddm", "frd", "gc")
LABELS = np.repeat(np.arange(8), 6)


def embeddings(seed=0, width=5):
    return np.random.default_rng(seed).normal(size=(len(LABELS), width)).astype(np.float32)


def started(name, *, seed=0, rows=None, **settings):
    sampler = REGISTRIES["sampler"][name](**{"batch_size": 8, "per_class": 2, "big_batch_size": 24, **settings})
    batches = sampler.batches(LABELS, seed)
    batches.start(embeddings() if rows is None else rows)
    return batches


def epoch_of(batches, epoch):
    return np.stack([batches.batch(BatchPosition(epoch, number)) for number in range(batches.batches_per_epoch)])


def test_the_samplers_that_are_fed_are_these():
    fed = [
        name
        for name in REGISTRIES["sampler"].names()
        if isinstance(REGISTRIES["sampler"][name](batch_size=8).batches(LABELS, 0), EmbeddingAwareBatches)
    ]
    assert tuple(fed) == FED


@pytest.mark.parametrize("name", FED)
def test_rows_change_only_for_seen_items(name):
    batches = started(name)
    before = batches.rows.copy()
    seen = np.array([40, 3, 17])
    batches.observe(seen, 7 * embeddings(1)[:3])
    assert np.linalg.norm(batches.rows, axis=1) == pytest.approx(np.ones(48), abs=1e-6)
    assert batches.rows[seen] == pytest.approx(
        embeddings(1)[:3] / np.linalg.norm(embeddings(1)[:3], axis=1)[:, None], abs=1e-6
    )
    assert np.array_equal(np.delete(batches.rows, seen, axis=0), np.delete(before, seen, axis=0))


@pytest.mark.parametrize("name", FED)
def test_batches_of_an_epoch_stay_and_those_of_the_next_follow_the_store(name):
    quiet, watching = started(name), started(name)
    first = epoch_of(quiet, 0)
    assert np.array_equal(watching.batch(BatchPosition(0, 0)), first[0])
    watching.observe(np.arange(48), embeddings(5))
    assert np.array_equal(epoch_of(watching, 0), first)
    assert not np.array_equal(epoch_of(watching, 1), epoch_of(quiet, 1))


@pytest.mark.parametrize("name", FED)
def test_what_state_gives_another_goes_on_from(name):
    original = started(name)
    epoch_of(original, 0)
    original.observe(np.arange(10), embeddings(2)[:10])
    state = {key: value.copy() for key, value in original.state().items()}
    other = REGISTRIES["sampler"][name](batch_size=8, per_class=2, big_batch_size=24).batches(LABELS, 0)
    other.restore(state)
    for batches in (original, other):
        assert np.array_equal(epoch_of(batches, 0), state["drawn"])
        batches.observe(np.arange(5), embeddings(3)[:5])
    assert np.array_equal(epoch_of(original, 1), epoch_of(other, 1))
    assert np.array_equal(original.rows, other.rows)
    assert not np.array_equal(state["rows"], other.rows)  # a restored store is its own


@pytest.mark.parametrize("name", FED)
def test_the_length_of_an_embedding_does_not_matter_and_a_zero_one_is_no_harm(name):
    lengths = np.random.default_rng(4).uniform(0.5, 2, size=(48, 1)).astype(np.float32)
    rows = embeddings()
    # Powers of two scale a row without rounding.
    scaled = rows * np.exp2(np.round(lengths * 4)).astype(np.float32)
    assert np.array_equal(epoch_of(started(name), 0), epoch_of(started(name, rows=scaled), 0))
    collapsed = started(name, rows=np.zeros((48, 5), dtype=np.float32))
    assert epoch_of(collapsed, 0).shape == (6, 8)
    assert np.isfinite(collapsed.rows).all()


@pytest.mark.parametrize("name", FED)
def test_a_projection_keeps_the_store_and_changes_what_is_compared(name):
    wide = embeddings(width=32)
    full, projected = started(name, rows=wide), started(name, rows=wide, project=2)
    assert np.array_equal(full.rows, projected.rows)
    assert not np.array_equal(epoch_of(full, 0), epoch_of(projected, 0))
    assert np.array_equal(epoch_of(projected, 0), epoch_of(started(name, rows=wide, project=2), 0))


@pytest.mark.parametrize("name", FED)
def test_a_big_batch_larger_than_the_data_and_an_empty_set(name):
    assert epoch_of(started(name, big_batch_size=500), 0).shape == (6, 8)
    with pytest.raises(DataError, match="no image"):
        REGISTRIES["sampler"][name]().batches(np.array([], dtype=np.int64), 0)
