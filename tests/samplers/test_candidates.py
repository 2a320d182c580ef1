import numpy as np
import pytest

from unseen.samplers.base import ItemsByClass
from unseen.samplers.candidates import CandidateSampler, big_batch, candidates

SIZES = [
    ([7, 12, 30, 5, 9], 6, 2, 20),
    ([3] * 50, 10, 2, 40),
    ([1, 1, 40], 4, 2, 8),
    ([4], 6, 3, 600),
    ([1], 2, 2, 2),
    ([2, 100], 8, 4, 1000),
]


def sampler(batch_size, per_class, big_batch_size, num_candidates):
    return CandidateSampler(
        batch_size=batch_size, per_class=per_class, big_batch_size=big_batch_size, num_candidates=num_candidates
    )


def generator(key=0):
    return np.random.default_rng(key)


@pytest.mark.parametrize(("sizes", "batch_size", "per_class", "big"), SIZES)
def test_a_big_batch_holds_distinct_images_shared_evenly_among_its_classes(sizes, batch_size, per_class, big):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    for key in range(30):
        chosen = big_batch(ItemsByClass(labels), big, per_class, generator(key))
        counts = np.bincount(labels[chosen], minlength=len(sizes))
        assert len(np.unique(chosen)) == len(chosen) <= big
        assert (counts > 0).sum() == min(len(sizes), big // per_class)
        share = big / min(len(sizes), big // per_class)
        for count, size in zip(counts, sizes, strict=True):
            assert count == 0 or count == size <= share + 1 or count in (int(share), int(np.ceil(share)))
    if big >= max(sizes) * len(sizes):
        assert len(chosen) == sum(sizes)


@pytest.mark.parametrize(("sizes", "batch_size", "per_class", "big"), SIZES)
def test_candidates_are_whole_batches_of_distinct_images_where_classes_have_enough(sizes, batch_size, per_class, big):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    drawn = candidates(ItemsByClass(labels), sampler(batch_size, per_class, big, 20), generator())
    assert drawn.shape == (20, batch_size)
    wanted = min(len(sizes), batch_size // per_class)
    for batch in drawn:
        classes, counts = np.unique(labels[batch], return_counts=True)
        assert len(classes) == wanted
        assert counts.max() - counts.min() <= 1
        for each, count in zip(classes, counts, strict=True):
            assert len(np.unique(batch[labels[batch] == each])) == min(count, sizes[each])


def test_every_class_and_image_of_the_big_batch_is_a_candidates_equally_often():
    labels = np.repeat(np.arange(6), 5)
    drawn = candidates(ItemsByClass(labels), sampler(4, 2, 30, 3000), generator())
    shares = np.bincount(drawn.ravel(), minlength=30) / drawn.size
    assert abs(shares - 1 / 30).max() < 4 * np.sqrt(1 / 30 / drawn.size)


def test_the_cheapest_candidate_is_taken_and_the_first_of_equals():
    labels = np.repeat(np.arange(6), 5)
    rows = np.arange(30.0)[:, None]
    seen: list[np.ndarray] = []

    def costs(big, chosen):
        seen.append(big[chosen, 0])
        return np.array([3.0, 1.0, 2.0, 1.0])

    chooser = sampler(4, 2, 12, 4)
    chooser.costs = costs
    found = chooser.draw(rows, ItemsByClass(labels), generator())
    assert np.array_equal(rows[found, 0], seen[0][1])
