import numpy as np
import pytest

from unseen.core.errors import ConfigError, DataError
from unseen.samplers import BatchPosition, SamplesPerClassRandom


def drawn(sizes, batch_size, count, seed=0):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    batches = SamplesPerClassRandom(batch_size=batch_size).batches(labels, seed)
    return labels, [batches.batch(BatchPosition(number, 0)) for number in range(count)]


@pytest.mark.parametrize("sizes", [[5] * 40, [2, 3, 30, 1, 7, 9], [1, 1, 1, 1, 1, 1, 2]])
def test_every_batch_holds_a_pair_of_two_images(sizes):
    labels, batches = drawn(sizes, 6, 500)
    for batch in batches:
        classes, counts = np.unique(labels[batch], return_counts=True)
        assert len(batch) == 6
        if max(sizes) > 2:
            distinct = [len(np.unique(batch[labels[batch] == each])) for each in classes]
            for each, count, kinds in zip(classes, counts, distinct, strict=True):
                assert kinds == min(count, sizes[each])
        has_room = any(sizes[each] > 1 for each in classes)
        pairs = [len(np.unique(batch[labels[batch] == each])) > 1 for each in classes]
        assert any(pairs) or not has_room


def test_two_images_of_a_batch_of_two_are_of_one_class():
    labels, batches = drawn([3] * 10, 2, 300)
    for one, two in batches:
        assert labels[one] == labels[two]
        assert one != two


def test_classes_are_drawn_evenly_whatever_their_size_and_so_are_their_images():
    labels, batches = drawn([4, 100, 20, 8], 3, 4000)
    shown = np.concatenate(batches)
    counts = np.bincount(labels[shown])
    # The last image copies the class of one of two others: 2 x + y has 5 times the variance of a draw, in 3 images.
    assert abs(counts / len(shown) - 0.25).max() < 4 * np.sqrt(0.1875 * 5 / 3 / len(shown))
    first = np.bincount(shown[labels[shown] == 0], minlength=4)
    assert abs(first / first.sum() - 0.25).max() < 4 * np.sqrt(0.1875 / first.sum())


def test_data_without_a_second_image_repeats_one():
    labels, batches = drawn([1], 3, 2)
    assert batches[0].tolist() == [0, 0, 0]
    assert len(labels) == 1


def test_a_batch_of_one_and_no_data_are_refused():
    with pytest.raises(ConfigError, match="batch_size must be an integer >= 2; got 1"):
        SamplesPerClassRandom(batch_size=1)
    with pytest.raises(DataError, match="no image"):
        SamplesPerClassRandom().batches(np.array([], dtype=np.int64), 0)
