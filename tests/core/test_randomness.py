import numpy as np
import torch

from unseen.core.randomness import derive, key_from_torch, numpy_generator, seeded, torch_generator


def test_keys_do_not_change_between_versions():
    # These numbers decide every batch ever drawn: a change here changes every published run.
    assert derive(0, "classes", 0) == 1143799725834144309
    assert numpy_generator(derive(0, "classes", 0)).integers(1000, size=4).tolist() == [666, 551, 68, 902]


def test_position_and_purpose_cannot_be_confused():
    keys = {derive(1, "a", 1, 11), derive(1, "a", 11, 1), derive(1, "a", 111), derive(11, "a", 1), derive(1, "a/1", 11)}
    assert len(keys) == 5
    assert all(0 <= key < 2**63 for key in keys)


def test_seeded_leaves_the_global_generator_as_it_was():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    with seeded(123):
        inside = torch.rand(3)
    assert torch.equal(torch.rand(3), expected)
    with seeded(123):
        assert torch.equal(torch.rand(3), inside)
    assert torch.equal(torch.rand(3, generator=torch_generator(123)), inside)


def test_callers_without_a_key_follow_torch_manual_seed():
    torch.manual_seed(9)
    first = [key_from_torch() for _ in range(3)]
    torch.manual_seed(9)
    assert first == [key_from_torch() for _ in range(3)]
    assert len(set(first)) == 3


def test_keys_are_spread_evenly():
    bits = np.array([derive(3, "spread", position) >> 62 & 1 for position in range(4000)])
    # Four standard deviations of a fair coin.
    assert abs(bits.mean() - 0.5) < 4 * 0.5 / np.sqrt(4000)
