import numpy as np
import pytest

from unseen.core.errors import ConfigError, DataError
from unseen.samplers import BatchPosition, SamplesPerClass
from unseen.samplers.samples_per_class import RoundRobinBatches


def labels_of(sizes):
    return np.repeat(np.arange(len(sizes)), sizes)


def batches(dealt, count):
    per_epoch = dealt.batches_per_epoch
    return [dealt.batch(BatchPosition(number // per_epoch, number % per_epoch)) for number in range(count)]


def test_every_class_is_reached_in_a_round_and_every_image_in_its_rounds():
    sizes = [7, 12, 30, 5, 9]
    labels = labels_of(sizes)
    dealt = SamplesPerClass(batch_size=6, per_class=3).batches(labels, seed=4)
    assert isinstance(dealt, RoundRobinBatches)
    assert dealt.batches_per_round == 3
    for start in range(0, 30, 3):
        seen = np.concatenate([dealt.batch(BatchPosition(0, number)) for number in range(start, start + 3)])
        assert set(labels[seen]) == set(range(5))
    rounds = -(-max(sizes) // 3)
    seen = np.concatenate([dealt.batch(BatchPosition(0, number)) for number in range(rounds * 3)])
    assert set(seen) == set(range(len(labels)))


@pytest.mark.parametrize("sizes", [[1, 1, 1], [1], [2], [1, 100], [50, 50], [3, 3, 3, 3, 3]])
def test_tiny_and_few_classes_still_fill_the_batch(sizes):
    labels = labels_of(sizes)
    dealt = SamplesPerClass(batch_size=8, per_class=2).batches(labels, seed=0)
    for batch in batches(dealt, 50):
        counts = np.bincount(labels[batch], minlength=len(sizes))
        assert len(batch) == 8
        assert counts.max() - counts[counts > 0].min() <= 1
        for each, size in enumerate(sizes):
            distinct = len(np.unique(batch[labels[batch] == each]))
            assert distinct == min(size, counts[each])


def test_a_batch_is_a_function_of_its_place_alone():
    labels = labels_of([7, 12, 30, 5, 9, 20, 33])
    forward = batches(SamplesPerClass(batch_size=6, per_class=2).batches(labels, seed=2), 60)
    dealt = SamplesPerClass(batch_size=6, per_class=2).batches(labels, seed=2)
    for number in (59, 3, 30, 3, 0, 58):
        assert np.array_equal(batches(dealt, 0) or dealt.batch(BatchPosition(0, number)), forward[number])
    other = batches(SamplesPerClass(batch_size=6, per_class=2).batches(labels, seed=3), 60)
    assert not all(np.array_equal(one, two) for one, two in zip(forward, other, strict=True))


def test_epochs_continue_the_rounds():
    labels = labels_of([10] * 6)
    dealt = SamplesPerClass(batch_size=12, per_class=2).batches(labels, seed=0)
    assert dealt.batches_per_epoch == 5
    assert np.array_equal(dealt.batch(BatchPosition(1, 2)), dealt.batch(BatchPosition(0, 7)))


def test_classes_are_drawn_evenly():
    labels = labels_of([20] * 7)
    dealt = SamplesPerClass(batch_size=8, per_class=2).batches(labels, seed=0)
    counts = np.bincount(labels[np.concatenate(batches(dealt, 700))], minlength=7)
    # Two batches a round: seven classes once, one drawn at random fills the last place; 100 +- 4 deviations of it.
    assert abs(counts / 2 - 400).max() < 4 * np.sqrt(350 * (1 / 7) * (6 / 7))


def test_bad_settings_are_refused():
    with pytest.raises(ConfigError, match="multiple of per_class = 3; got 10"):
        SamplesPerClass(batch_size=10, per_class=3)
    with pytest.raises(ConfigError, match="per_class must be an integer >= 1; got 0"):
        SamplesPerClass(per_class=0)
    with pytest.raises(DataError, match="no image"):
        SamplesPerClass().batches(np.array([], dtype=np.int64), seed=0)
