import numpy as np
import pytest

from unseen.core.errors import ConfigError
from unseen.samplers import BatchPosition, GreedyCoreset
from unseen.samplers.gc import greedy_centres


def generator(key=0):
    return np.random.default_rng(key)


def slow_centres(rows, first, count):
    """The definition: every time, every row's distance to every centre."""
    chosen = [first]
    while len(chosen) < count:
        nearest = [
            -1.0 if row in chosen else min(((rows[row] - rows[each]) ** 2).sum() for each in chosen)
            for row in range(len(rows))
        ]
        chosen.append(int(np.argmax(nearest)))
    return chosen


def test_centres_are_those_of_a_loop_over_all_distances():
    for seed in range(20):
        rows = generator(seed).normal(size=(30, 4))
        found = greedy_centres(rows, 12, generator(seed))
        assert found.tolist() == slow_centres(rows, found[0], 12)


def test_the_radius_of_the_cover_never_grows_and_beats_random_points():
    rows = generator().normal(size=(200, 3))
    centres = greedy_centres(rows, 40, generator())
    distances = np.linalg.norm(rows[:, None] - rows[None], axis=2)
    radii = [distances[:, centres[:count]].min(axis=1).max() for count in range(1, 41)]
    assert (np.diff(radii) <= 1e-12).all()
    by_chance = [distances[:, generator(key).permutation(200)[:40]].min(axis=1).max() for key in range(20)]
    assert radii[-1] < min(by_chance)


def test_soft_centres_are_distinct_and_among_the_farthest():
    rows = generator().normal(size=(100, 3))
    centres = greedy_centres(rows, 30, generator(1), soft_share=0.03)
    assert len(np.unique(centres)) == 30
    assert centres.tolist() != slow_centres(rows, centres[0], 30)
    for place in range(1, 30):
        nearest = ((rows[:, None] - rows[centres[:place]]) ** 2).sum(axis=2).min(axis=1)
        assert (nearest > nearest[centres[place]] + 1e-9).sum() < 3
    assert sorted(greedy_centres(rows, 100, generator(1), soft_share=1.0)) == list(range(100))


def test_equal_rows_give_distinct_centres_and_no_more_than_there_are():
    assert sorted(greedy_centres(np.ones((4, 2)), 9, generator())) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("sizes", "batch_size", "per_class", "big"),
    [
        ([7, 12, 30, 5, 9, 8], 12, 3, 60),
        ([20] * 10, 12, 4, 30),
        ([50], 12, 3, 512),
        ([2, 2, 2], 12, 3, 512),
        ([1, 1], 8, 2, 8),
        ([6, 6], 6, 1, 6),
    ],
)
def test_batches_are_centres_with_mates_of_their_class_distinct_where_there_are_enough(
    sizes, batch_size, per_class, big
):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    drawn = GreedyCoreset(batch_size=batch_size, per_class=per_class, big_batch_size=big).batches(labels, seed=0)
    drawn.start(generator().normal(size=(len(labels), 4)))
    for number in range(60):
        batch = drawn.batch(BatchPosition(number, 0))
        classes = labels[batch].reshape(-1, per_class)
        assert len(batch) == batch_size
        assert (classes == classes[:, :1]).all()
        for each, size in enumerate(sizes):
            own = batch[labels[batch] == each]
            assert len(np.unique(own)) == min(len(own), size)


def test_the_first_of_each_run_are_the_greedy_centres_of_the_store():
    labels = np.repeat(np.arange(8), 5)
    drawn = GreedyCoreset(batch_size=12, per_class=2, big_batch_size=40).batches(labels, seed=0)
    drawn.start(generator().normal(size=(40, 4)))
    centres = drawn.batch(BatchPosition(0, 0))[::2]
    assert centres.tolist() == slow_centres(drawn.rows, centres[0], 6)


def test_bad_settings_of_the_coreset_are_refused():
    with pytest.raises(ConfigError, match="big_batch_size must be an integer >= 112; got 8"):
        GreedyCoreset(big_batch_size=8)
    with pytest.raises(ConfigError, match="soft_share must be a number from 0 to 1; got 2"):
        GreedyCoreset(soft_share=2)
