"""The shared pair object: masks, distances, what miner and loss share."""

import pytest
import torch

from tests.losses.loops import small_batch
from unseen.core.errors import BatchError
from unseen.losses import Pairs
from unseen.pairs.pairs import pairs_of


def test_masks_and_counts_leave_self_pairs_out():
    pairs = Pairs(torch.randn(4, 3, generator=torch.Generator().manual_seed(0)), torch.tensor([5, 5, 7, 5]))
    assert pairs.positive.int().tolist() == [[0, 1, 0, 1], [1, 0, 0, 1], [0, 0, 0, 0], [1, 1, 0, 0]]
    assert pairs.negative.int().tolist() == [[0, 0, 1, 0], [0, 0, 1, 0], [1, 1, 0, 1], [0, 0, 1, 0]]
    assert pairs.positive_count.tolist() == [2, 2, 0, 2]
    assert pairs.negative_count.tolist() == [1, 1, 3, 1]


def test_a_reference_set_has_no_self_pairs_to_leave_out():
    embeddings, labels = small_batch()
    pairs = Pairs(embeddings[:3], labels[:3], embeddings, labels)
    assert pairs.similarity.shape == (3, 10)
    assert torch.equal(pairs.positive, labels[:3].unsqueeze(1) == labels)
    assert torch.equal(pairs.positive_count + pairs.negative_count, torch.full((3,), 10))


def test_distances_are_those_of_the_unit_vectors():
    embeddings, labels = small_batch()
    pairs = Pairs(embeddings, labels)
    unit = embeddings / embeddings.norm(dim=1, keepdim=True)
    expected = (unit.unsqueeze(1) - unit).square().sum(2)
    torch.testing.assert_close(pairs.squared_distance, expected)
    torch.testing.assert_close(pairs.distance, (expected + 1e-8).sqrt())
    assert (pairs.distance.diagonal() - 1e-4).abs().max() < 1e-5


def test_a_miner_that_asks_first_does_not_cut_the_graph_of_the_loss():
    embeddings, labels = small_batch()
    pairs = Pairs(embeddings.requires_grad_(), labels)
    with torch.no_grad():
        mined_on = pairs.detached
        assert not mined_on.similarity.requires_grad
        assert not mined_on.distance.requires_grad
    assert pairs.similarity.requires_grad
    assert pairs.distance.requires_grad
    assert mined_on.similarity.data_ptr() == pairs.similarity.data_ptr()
    assert mined_on.positive is pairs.positive
    assert mined_on.detached is mined_on


def test_no_graph_is_recorded_where_gradients_are_off():
    embeddings, labels = small_batch()
    with torch.no_grad():
        pairs = Pairs(embeddings.requires_grad_(), labels)
    assert not pairs.similarity.requires_grad


def test_ready_pairs_come_alone():
    pairs = Pairs(*small_batch())
    assert pairs_of(pairs, None) is pairs
    with pytest.raises(BatchError, match="already hold labels"):
        pairs_of(pairs, pairs.labels)


def test_cosines_without_unit_vectors_equal_those_with_them_in_value_and_gradient():
    embeddings, labels = small_batch()
    weights = torch.randn(10, 10, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    for scale in (1e-8, 1.0, 1e8):
        ordinary, plain = (embeddings.clone().mul(scale).requires_grad_() for _ in range(2))
        similarity = Pairs(ordinary, labels).similarity
        unit = plain / plain.norm(dim=1, keepdim=True)
        torch.testing.assert_close(similarity, unit @ unit.T)
        (similarity * weights).sum().backward()
        (unit @ unit.T * weights).sum().backward()
        torch.testing.assert_close(ordinary.grad * scale, plain.grad * scale)


def test_rows_of_very_different_lengths_in_one_batch_have_the_cosines_of_their_directions():
    embeddings, labels = small_batch()
    scales = torch.tensor([1e-30, 1e-11, 1e-9, 1e-3, 1.0, 1e3, 1e9, 1e12, 1e20, 1e30]).unsqueeze(1)
    found = Pairs((embeddings * scales).float(), labels)
    expected = Pairs(embeddings, labels).similarity.float()
    expected[0], expected[:, 0] = 0, 0  # without a direction
    torch.testing.assert_close(found.similarity, expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(Pairs((embeddings * 1e9).float(), labels).similarity[1:, 1:], expected[1:, 1:])
