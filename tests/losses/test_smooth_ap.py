"""Smooth AP against loops, exact average precision, and batches sorted right and wrong."""

import math

import pytest
import torch

from tests.losses.loops import at_angles, cosine, negatives, positives, small_batch
from unseen.core.randomness import torch_generator
from unseen.losses import Pairs, SmoothAP
from unseen.miners import MultiSimilarity


def sigmoid(x):
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def step(x):
    return float(x > 0)


def in_loops(rows, chosen, smooth):
    """`chosen`: for each query its list of positives and its list of negatives."""
    precisions = []
    for q, (near, far) in enumerate(chosen):
        if near:
            total = 0.0
            for i in near:
                at = cosine(rows[q], rows[i])
                rank = 1 + sum(smooth(cosine(rows[q], rows[j]) - at) for j in near if j != i)
                total += rank / (rank + sum(smooth(cosine(rows[q], rows[j]) - at) for j in far))
            precisions.append(total / len(near))
    return 1 - sum(precisions) / len(precisions) if precisions else 0.0


def everything(labels):
    return [(positives(labels, i), negatives(labels, i)) for i in range(len(labels))]


@pytest.mark.parametrize("temperature", [0.01, 0.1, 2.0])
@pytest.mark.parametrize("seed", range(4))
def test_it_equals_the_loops(seed, temperature):
    embeddings, labels = small_batch(seed)
    expected = in_loops(embeddings.tolist(), everything(labels.tolist()), lambda x: sigmoid(x / temperature))
    loss = SmoothAP(temperature=temperature)
    assert loss(embeddings, labels).item() == pytest.approx(expected, rel=1e-9)


def test_its_gradient_is_that_of_the_formula_left_to_autograd():
    embeddings, labels = small_batch(4, sizes=(5, 3, 1, 4))
    gradients = []
    for is_ours in (True, False):
        leaf = embeddings.clone().requires_grad_()
        if is_ours:
            (3 * SmoothAP(temperature=0.1)(leaf, labels)).backward()
        else:
            pairs = Pairs(leaf, labels)
            share = ((pairs.similarity.unsqueeze(1) - pairs.similarity.unsqueeze(2)) / 0.1).sigmoid()  # q, i, j
            others = pairs.positive.unsqueeze(1) & ~torch.eye(len(labels), dtype=torch.bool)
            rank = 1 + (share * others).sum(2)
            precision = rank / (rank + (share * pairs.negative.unsqueeze(1)).sum(2)) * pairs.positive
            is_query = pairs.positive.any(1)
            average = precision.sum(1)[is_query] / pairs.positive.sum(1)[is_query]
            (3 * (1 - average.mean())).backward()
        gradients.append(leaf.grad)
    torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("sizes", [(4, 4, 4), (2,) * 7, (6, 2), (5, 1, 3)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_perfectly_separated_batch_costs_nothing_in_any_composition_and_order(sizes, dtype):
    generator = torch_generator(1)
    labels = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    labels = labels[torch.randperm(len(labels), generator=generator)]
    noise = 0.01 * torch.randn(len(labels), 8, generator=generator, dtype=torch.float64)
    embeddings = (torch.eye(8, dtype=torch.float64)[labels] + noise).to(dtype)
    assert 0 <= SmoothAP()(embeddings, labels).item() < 1e-9


def test_a_small_temperature_gives_the_exact_average_precision():
    embeddings, labels = small_batch(5, sizes=(4, 5, 3))
    expected = in_loops(embeddings.tolist(), everything(labels.tolist()), step)
    assert expected > 0.1
    assert SmoothAP(temperature=1e-6)(embeddings, labels).item() == pytest.approx(expected, rel=1e-9)


def test_the_positive_in_last_place_has_precision_one_over_its_place():
    embeddings, labels = at_angles(0, 90, 40, 50), torch.tensor([0, 0, 1, 1])
    # Queries 0 and 1 have their positive in place 3, queries 2 and 3 theirs in place 1.
    assert SmoothAP(temperature=1e-4)(embeddings, labels).item() == pytest.approx(1 - (2 / 3 + 2) / 4)


def test_a_collapsed_batch_counts_every_tie_as_half():
    labels = torch.arange(12) // 4
    rank, false = 1 + 2 / 2, 8 / 2
    value = SmoothAP()(torch.ones(12, 3, dtype=torch.float64), labels)
    assert value.item() == pytest.approx(false / (rank + false))


@pytest.mark.parametrize("labels", [[0, 0, 0, 0], [0, 1, 2, 3]])
def test_without_one_kind_of_pair_it_is_a_connected_zero(labels):
    leaf = at_angles(0, 20, 40, 60).requires_grad_()
    value = SmoothAP()(leaf, torch.tensor(labels))
    value.backward()
    assert value.item() == 0
    assert not leaf.grad.any()


def test_a_pair_miner_decides_which_samples_are_ranked():
    embeddings, labels = small_batch(6)
    kept = MultiSimilarity()(embeddings, labels)
    chosen: list[tuple[list[int], list[int]]] = [([], []) for _ in labels]
    for side, (rows, columns) in enumerate([kept[:2], kept[2:]]):
        for i, j in zip(rows.tolist(), columns.tolist(), strict=True):
            chosen[i][side].append(j)
    expected = in_loops(embeddings.tolist(), chosen, lambda x: sigmoid(x / 0.05))
    loss = SmoothAP(temperature=0.05)
    assert loss(embeddings, labels, kept).item() == pytest.approx(expected, rel=1e-9)


def test_a_reference_set_is_ranked_whole():
    embeddings, labels = small_batch(7)
    queries, gallery = slice(0, 4), slice(4, None)
    names = labels.tolist()
    chosen = [
        ([j for j in range(4, 10) if names[j] == names[q]], [j for j in range(4, 10) if names[j] != names[q]])
        for q in range(4)
    ]
    expected = in_loops(embeddings.tolist(), chosen, lambda x: sigmoid(x / 0.1))
    value = SmoothAP(temperature=0.1)(
        embeddings[queries], labels[queries], ref_emb=embeddings[gallery], ref_labels=labels[gallery]
    )
    assert value.item() == pytest.approx(expected, rel=1e-9)
