"""Normalised softmax against loops and closed forms."""

import math

import pytest
import torch

from tests.losses.loops import at_angles, cosine, small_batch
from unseen.core.errors import BatchError
from unseen.losses import NormalizedSoftmax


@pytest.mark.parametrize("temperature", [0.05, 1.0])
def test_it_equals_the_loops_over_all_classes(temperature):
    embeddings, labels = small_batch(1)
    loss = NormalizedSoftmax(num_classes=6, embedding_size=5, temperature=temperature).double()
    proxies = loss.proxies.tolist()
    terms = []
    for row, label in zip(embeddings.tolist(), labels.tolist(), strict=True):
        logits = [cosine(row, proxy) / temperature for proxy in proxies]
        terms.append(math.log(sum(math.exp(logit) for logit in logits)) - logits[label])
    assert loss(embeddings, labels).item() == pytest.approx(sum(terms) / len(terms), rel=1e-9)


def test_equal_class_vectors_cost_the_logarithm_of_their_number():
    loss = NormalizedSoftmax(num_classes=7, embedding_size=2)
    loss.proxies.data = torch.tensor([[0.3, 0.4]]).repeat(7, 1)
    assert loss(at_angles(0, 50, 200).float(), torch.tensor([0, 3, 6])).item() == pytest.approx(math.log(7))


def test_one_class_costs_nothing():
    loss = NormalizedSoftmax(num_classes=1, embedding_size=2)
    assert loss(at_angles(0, 50).float(), torch.tensor([0, 0])).item() == 0


def test_length_of_embeddings_and_class_vectors_plays_no_part():
    embeddings, labels = small_batch(2)
    loss = NormalizedSoftmax(num_classes=4, embedding_size=5).double()
    value = loss(embeddings, labels)
    loss.proxies.data *= torch.tensor([[0.1], [2.0], [3.0], [40.0]], dtype=torch.float64)
    torch.testing.assert_close(loss(embeddings * 7, labels), value)


def test_class_vectors_come_from_the_seed_and_are_declared_with_their_rate():
    first, same, other = (NormalizedSoftmax(num_classes=50, embedding_size=64, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first.proxies, same.proxies)
    assert not torch.equal(first.proxies, other.proxies)
    assert first.proxies.abs().max() <= 1 / 8
    assert first.proxies.std().item() == pytest.approx(1 / 8 / 3**0.5, rel=0.05)
    assert first.own_parameters() == [{"params": [first.proxies], "lr": 1e-5, "weight_decay": 0.0}]


def test_labels_and_widths_that_do_not_fit_the_class_vectors_are_refused():
    loss = NormalizedSoftmax(num_classes=3, embedding_size=2)
    with pytest.raises(BatchError, match=r"labels must be 0 to 2.*got \[0, 3\]"):
        loss(at_angles(0, 1), torch.tensor([0, 3]))
    with pytest.raises(BatchError, match="2 columns of the proxies"):
        loss(torch.ones(2, 3), torch.tensor([0, 1]))
