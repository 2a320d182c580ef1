"""Histogram against loops and the closed forms of two distributions."""

import pytest
import torch

from tests.losses.loops import at_angles, cosine, small_batch
from unseen.losses import Histogram
from unseen.miners import MultiSimilarity


def histogram_in_loops(similarities, num_nodes):
    step = 2 / (num_nodes - 1)
    heights = [0.0] * num_nodes
    for similarity in similarities:
        for r in range(num_nodes):
            heights[r] += max(0.0, 1 - abs(min(1.0, max(-1.0, similarity)) - (-1 + r * step)) / step)
    return [height / max(1, len(similarities)) for height in heights]


def in_loops(near, far, num_nodes):
    positive, negative = histogram_in_loops(near, num_nodes), histogram_in_loops(far, num_nodes)
    return sum(negative[r] * sum(positive[: r + 1]) for r in range(num_nodes))


def unordered(rows, labels):
    pairs = [(i, j) for i in range(len(rows)) for j in range(i + 1, len(rows))]
    near = [cosine(rows[i], rows[j]) for i, j in pairs if labels[i] == labels[j]]
    return near, [cosine(rows[i], rows[j]) for i, j in pairs if labels[i] != labels[j]]


@pytest.mark.parametrize("num_nodes", [2, 3, 11, 65, 150])
@pytest.mark.parametrize("seed", range(3))
def test_it_equals_the_loops_over_unordered_pairs(seed, num_nodes):
    embeddings, labels = small_batch(seed)
    near, far = unordered(embeddings.tolist(), labels.tolist())
    loss = Histogram(num_nodes=num_nodes)
    assert loss(embeddings, labels).item() == pytest.approx(in_loops(near, far, num_nodes), rel=1e-10)
    assert loss.usage.counts()["num_tuples"] == 2 * (len(near) + len(far))
    assert loss(embeddings.float(), labels).item() == pytest.approx(in_loops(near, far, num_nodes), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_it_lies_between_0_and_1(seed):
    value = Histogram(num_nodes=11)(*small_batch(seed)).item()
    assert 0 <= value <= 1


def test_positives_above_negatives_by_two_steps_cost_nothing():
    # Positives at similarity 1, negatives at 1 - 2.5 steps.
    angle = torch.tensor(1 - 2.5 * 2 / 64, dtype=torch.float64).arccos().rad2deg().item()
    embeddings, labels = at_angles(0, 0, angle, angle), torch.tensor([0, 0, 1, 1])
    loss = Histogram()
    assert loss(embeddings, labels).item() == pytest.approx(0, abs=1e-9)
    closer = at_angles(0, 0, angle / 3, angle / 3)
    assert loss(closer, labels).item() > 0.1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_similarities_at_a_node_cost_1(dtype):
    # Right angles everywhere: every similarity is 0, the middle node.
    assert Histogram()(torch.eye(6, dtype=dtype), torch.arange(6) // 2).item() == 1
    # A collapsed model: every similarity is 1, the last node.
    assert Histogram()(torch.ones(6, 4, dtype=dtype), torch.arange(6) // 2).item() == pytest.approx(1, rel=1e-5)


@pytest.mark.parametrize("labels", [[0, 0, 0, 0], [0, 1, 2, 3]])
def test_without_one_kind_of_pair_it_is_a_connected_zero(labels):
    leaf = at_angles(0, 20, 40, 60).requires_grad_()
    value = Histogram()(leaf, torch.tensor(labels))
    value.backward()
    assert value.item() == 0
    assert not leaf.grad.any()


def test_a_pair_miner_decides_which_pairs_count():
    embeddings, labels = small_batch(5)
    rows = embeddings.tolist()
    kept = MultiSimilarity()(embeddings, labels)
    near = [cosine(rows[i], rows[j]) for i, j in zip(kept.anchor_positive, kept.positive, strict=True)]
    far = [cosine(rows[i], rows[j]) for i, j in zip(kept.anchor_negative, kept.negative, strict=True)]
    assert len(far) < (labels.unsqueeze(1) != labels).sum()
    for loss, indices in [(Histogram(), kept), (Histogram(miner=MultiSimilarity()), None)]:
        assert loss(embeddings, labels, indices).item() == pytest.approx(in_loops(near, far, 65), rel=1e-10)


def test_a_large_batch_in_float32_is_as_exact_as_its_similarities():
    embeddings, labels = small_batch(6, sizes=(60,) * 6, width=16)
    loss = Histogram(num_nodes=11)
    assert loss(embeddings.float(), labels).item() == pytest.approx(loss(embeddings, labels).item(), rel=1e-6)
