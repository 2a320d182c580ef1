"""The toy examples: their points, their loss, and the effect that they are there to show, seed by seed."""

import math
from functools import cache

import numpy as np
import pytest
import torch

from unseen.analyses.toy.train import EXAMPLES, THRESHOLD, VARIANTS, points_on, spectrum_of, toy_loss, train_toys
from unseen.core.randomness import derive, torch_generator
from unseen.losses import Contrastive

SEEDS = range(5)


@cache
def trained(seed):
    return {(run.example, run.variant): run for run in train_toys(seed)}


def batch(count=9, networks=2, key=0):
    generator = torch_generator(derive(key, "toy test"))
    vectors = torch.randn((networks, count, 2), generator=generator, dtype=torch.float64)
    # Near each other, so that some negatives are inside the margin.
    vectors = torch.nn.functional.normalize(torch.tensor([1.0, 0.5]) + 0.05 * vectors, dim=2)
    labels = torch.randint(3, (count,), generator=generator)
    return vectors, labels, torch.rand((networks, count, count, count), generator=generator) < 0.2


def loss_by_loops(vectors, labels, is_switched, pulls):
    total, count = 0.0, 0
    for a in range(len(labels)):
        for p in range(len(labels)):
            for n in range(len(labels)):
                if a == p or labels[a] != labels[p] or labels[a] == labels[n]:
                    continue
                count += 1
                pushed = p if is_switched[a, p, n] else n
                total += max(0.0, 0.1 - math.dist(vectors[a], vectors[pushed]))
                if pulls and not is_switched[a, p, n]:
                    total += math.dist(vectors[a], vectors[p])
    return total / count


@pytest.mark.parametrize("pulls", [True, False])
def test_the_loss_is_that_of_a_loop_over_all_triplets(pulls):
    vectors, labels, is_switched = batch()
    found = toy_loss(vectors, labels, is_switched, torch.tensor([pulls, pulls]))
    for network in range(2):
        expected = loss_by_loops(vectors[network].tolist(), labels.tolist(), is_switched[network], pulls)
        # Distances carry an epsilon of 1e-8 under their root.
        assert found[network].item() == pytest.approx(expected, abs=1e-6)


def test_without_switches_the_loss_is_the_contrastive_loss_of_equal_classes():
    vectors, _, is_switched = batch()
    labels = torch.arange(9) % 3  # each pair is then in as many triplets as any other of its kind
    found = toy_loss(vectors, labels, torch.zeros_like(is_switched), torch.tensor([True, True]))
    for network in range(2):
        expected = Contrastive(negative_margin=0.1)(vectors[network], labels)
        assert found[network].item() == pytest.approx(expected.item(), rel=1e-9)


def test_a_batch_of_one_class_has_no_loss():
    vectors, labels, is_switched = batch()
    assert toy_loss(vectors, torch.zeros_like(labels), is_switched, torch.tensor([True, False])).tolist() == [0, 0]


@pytest.mark.parametrize("example", EXAMPLES)
def test_points_lie_on_their_segments_and_are_different(example):
    for segments in (EXAMPLES[example].train, EXAMPLES[example].test):
        points = points_on(segments, key=3).double().numpy()
        assert len(np.unique(points.round(5), axis=0)) == 60
        for own, (start, end) in zip(np.split(points, 4), np.array(segments), strict=True):
            along = end - start
            share = (own - start) @ along / (along @ along)
            assert share.min() > -1e-6
            assert share.max() < 1 + 1e-6
            assert np.abs(own - start - share[:, None] * along).max() < 1e-6


def test_the_spectrum_of_points_on_a_line_and_of_a_cross():
    line = torch.tensor([[1.0, 0.0], [2.0, 0.0], [-1.0, 0.0]])
    assert spectrum_of(line).tolist() == [1, 0]
    assert spectrum_of(torch.eye(2)).tolist() == [0.5, 0.5]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("example", EXAMPLES)
def test_regularisation_keeps_the_second_direction_on_every_seed(example, seed):
    without, regularised = (trained(seed)[example, variant] for variant in ("contrastive", "regularised"))
    assert without.spectrum[1] < THRESHOLD < regularised.spectrum[1]
    assert without.reach < regularised.reach


@pytest.mark.parametrize("seed", SEEDS)
def test_it_is_the_missing_pull_that_keeps_it_on_the_diagonal(seed):
    # With the pull kept, switching the same few triplets changes nothing; without it, no switch is needed.
    assert trained(seed)["diagonal", "pull and switch"].spectrum[1] < THRESHOLD
    assert trained(seed)["diagonal", "no pull, no switch"].spectrum[1] > THRESHOLD


def test_a_run_says_all_that_is_drawn():
    runs = trained(0)
    assert list(runs) == [(example, variant) for example in EXAMPLES for variant in VARIANTS]
    for run in runs.values():
        assert run.train.shape == run.test.shape == run.train_embeddings.shape == (60, 2)
        assert np.abs(np.linalg.norm(run.test_embeddings, axis=1) - 1).max() < 1e-6
        assert run.curve[-1].tolist() == pytest.approx([200, run.spectrum[1]], abs=1e-5)
        assert 0 <= run.recall <= 1
    assert len({run.train.tobytes() for run in runs.values()}) == len(EXAMPLES)


def test_a_seed_gives_the_same_bits_again_and_leaves_the_threads_alone():
    threads = torch.get_num_threads()
    again = {(run.example, run.variant): run for run in train_toys(0)}
    assert torch.get_num_threads() == threads
    for place, run in trained(0).items():
        assert run.test_embeddings.tobytes() == again[place].test_embeddings.tobytes()
