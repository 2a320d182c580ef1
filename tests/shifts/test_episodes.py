"""Episodes are a function of seed and class name; support and queries part a class."""

import numpy as np
import pytest

from unseen.shifts.episodes import EPISODES, SHOTS, draw_support, support_and_queries


def test_support_is_drawn_without_repetition_and_leaves_two_queries():
    sizes = {"large": 60, "twelve": 12, "five": 5, "two": 2, "one": 1}
    support = draw_support(sizes)
    for name, size in sizes.items():
        assert len(support[name]) == EPISODES
        for positions in support[name]:
            assert len(positions) == max(0, min(10, size - 2))
            assert len(set(positions)) == len(positions)
            assert set(positions) <= set(range(size))
    assert len({tuple(positions) for positions in support["large"]}) == EPISODES


def test_a_class_has_the_same_support_whatever_other_classes_there_are():
    alone, among = draw_support({"owl": 20}), draw_support({"emu": 9, "owl": 20})
    assert alone["owl"] == among["owl"]
    assert draw_support({"owl": 20}, seed=1)["owl"] != alone["owl"]


@pytest.mark.parametrize("shots", SHOTS)
def test_support_and_queries_part_the_class_and_fewer_shots_are_among_more(shots):
    items = np.arange(100, 120)
    support = draw_support({"owl": 20})["owl"]
    for episode in range(EPISODES):
        chosen, queries = support_and_queries(support, items, shots=shots, episode=episode)
        assert len(chosen) == shots
        assert sorted([*chosen, *queries]) == items.tolist()
        fewer, _ = support_and_queries(support, items, shots=2, episode=episode)
        assert set(fewer) <= set(chosen)


def test_a_class_too_small_takes_no_part():
    support = draw_support({"owl": 5})["owl"]
    items = np.arange(5)
    assert [len(side) for side in support_and_queries(support, items, shots=2, episode=0)] == [2, 3]
    assert [len(side) for side in support_and_queries(support, items, shots=5, episode=0)] == [0, 0]


def test_every_image_is_support_about_as_often():
    support = draw_support({f"class {number}": 8 for number in range(300)})
    counts = np.bincount([positions[0] for episodes in support.values() for positions in episodes], minlength=8)
    # 3,000 draws of 1/8: a deviation of 18 about 375.
    assert abs(counts - 375).max() < 5 * 18.1
