"""SNR against loops, what its ratio is indifferent to, and anchors without a signal."""

import pytest
import torch

from tests.losses.loops import all_triplets, as_indices, grad, hinge, small_batch, unit
from unseen.losses import SNR, Pairs
from unseen.losses.snr import noise_to_signal, signals_of
from unseen.miners import Random
from unseen.pairs.functional import inner_products, unit_vectors


def variance(vector):
    mean = sum(vector) / len(vector)
    return sum((x - mean) ** 2 for x in vector) / len(vector)


def ratio(first, second):
    return variance([x - y for x, y in zip(first, second, strict=True)]) / variance(first)


def in_loops(rows, triplets, margin=0.2, regularization=0.005):
    terms = [hinge(ratio(rows[a], rows[p]) - ratio(rows[a], rows[n]) + margin) for a, p, n in triplets]
    active = sum(term > 0 for term in terms)
    anchors = {a for a, _, _ in triplets}
    regular = sum(abs(sum(unit(rows[a]))) for a in anchors) / max(1, len(anchors))
    return sum(terms) / max(1, active) + regularization * regular, active


def ratios(embeddings):
    signals = signals_of(embeddings)
    correlation = inner_products(signals.direction, signals.direction)
    return noise_to_signal(correlation, signals.log_spread.unsqueeze(1), signals.log_spread)


@pytest.mark.parametrize("settings", [{}, {"margin": 1.5}, {"regularization": 0.0}, {"regularization": 2.0}], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_it_equals_the_loops_over_all_triplets_and_over_some(seed, settings):
    embeddings, labels = small_batch(seed)
    loss = SNR(**settings)
    every = all_triplets(labels.tolist())
    for triplets in (every, every[::5] * 2):
        indices = None if triplets is every else as_indices(triplets)
        expected, active = in_loops(embeddings.tolist(), triplets, **settings)
        assert loss(embeddings, labels, indices).item() == pytest.approx(expected, rel=1e-10)
        assert loss.usage.counts()["num_tuples"] == len(triplets)
        assert loss.usage.counts()["num_active"] == active


def test_all_triplets_at_once_have_the_gradient_of_all_triplets_listed():
    embeddings, labels = small_batch(3, sizes=(5, 4, 6, 1))
    gradients = []
    for indices in (None, as_indices(all_triplets(labels.tolist()))):
        leaf = embeddings.clone().requires_grad_()
        SNR()(leaf, labels, indices).backward()
        gradients.append(leaf.grad)
    torch.testing.assert_close(*gradients)


def test_the_ratio_ignores_constants_and_common_scale_and_is_not_symmetric():
    embeddings, _ = small_batch(4)
    found = ratios(embeddings)
    rows = embeddings.tolist()
    expected = [[ratio(first, second) for second in rows] for first in rows]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))
    assert found.diagonal().abs().max() < 1e-12
    shift = torch.linspace(-3, 5, len(rows), dtype=torch.float64).unsqueeze(1)
    torch.testing.assert_close(ratios(embeddings + shift), found)
    torch.testing.assert_close(ratios(embeddings * 1e-7), found)
    torch.testing.assert_close(ratios(embeddings * 1e200), found)
    assert (found - found.T).abs().max() > 0.1


def test_the_ratio_works_on_raw_embeddings():
    embeddings, labels = small_batch(5)
    longer = embeddings.clone()
    longer[0] *= 3
    loss = SNR(regularization=0.0)
    assert loss(longer, labels) != loss(embeddings, labels)
    assert loss(embeddings * 3, labels).item() == pytest.approx(loss(embeddings, labels).item())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("level", [0.0, 0.3, -7e5])
def test_an_anchor_of_equal_coordinates_has_no_triplet(level, dtype):
    embeddings, labels = small_batch(6, sizes=(3, 3), width=7)
    embeddings[2] = level
    every = all_triplets(labels.tolist())
    with_signal = [triplet for triplet in every if triplet[0] != 2]
    expected, _ = in_loops(embeddings.tolist(), with_signal)
    for indices in (None, as_indices(every)):
        loss, leaf = SNR(), embeddings.to(dtype).requires_grad_()
        value = loss(leaf, labels, indices)
        value.backward()
        assert value.item() == pytest.approx(expected, rel=1e-5)
        assert leaf.grad.isfinite().all()
        assert loss.usage.counts()["num_tuples"] == len(with_signal)


def test_embeddings_without_any_signal_cost_nothing():
    leaf = torch.full((4, 3), 0.7, requires_grad=True)
    value = SNR()(leaf, torch.tensor([0, 0, 1, 1]))
    value.backward()
    assert value.item() == 0
    assert not grad(leaf).any()


def test_batches_without_an_active_triplet_are_not_divided_by_zero():
    # Positives equal their anchors up to a constant; negatives are their opposite, at a ratio of 4.
    first = torch.tensor([1.0, -1.0, 2.0, -2.0])
    embeddings = torch.stack((first, first + 3, -first, -first - 1))
    loss = SNR(regularization=0.0)
    assert loss(embeddings, torch.tensor([0, 0, 1, 1])).item() == 0
    assert loss.usage.counts()["num_active"] == 0


def test_a_mined_loss_equals_the_loss_of_the_mined_triplets():
    embeddings, labels = small_batch(7)
    mined = Random()(embeddings, labels, key=3)
    assert torch.equal(SNR(miner=Random())(embeddings, labels, key=3), SNR()(embeddings, labels, mined))


def test_a_reference_set_supplies_positives_and_negatives():
    embeddings, labels = small_batch(8)
    rows, names = embeddings.tolist(), labels.tolist()
    triplets = [(a, p, n) for a in range(4) for p in range(4, 10) for n in range(4, 10)]
    triplets = [(a, p, n) for a, p, n in triplets if names[a] == names[p] != names[n]]
    expected, _ = in_loops(rows, triplets)
    assert SNR()(Pairs(embeddings[:4], labels[:4], embeddings[4:], labels[4:])).item() == pytest.approx(expected)


def test_the_gradients_of_signals_pass_gradcheck():
    embeddings, _ = small_batch(9)
    embeddings = (embeddings + 0.7).requires_grad_()
    assert torch.autograd.gradcheck(lambda rows: signals_of(rows)[:3], embeddings)


def test_the_lean_is_the_sum_of_the_unit_vector():
    embeddings, _ = small_batch(10)
    torch.testing.assert_close(signals_of(embeddings).coordinate_sum, unit_vectors(embeddings).sum(1))


@pytest.mark.parametrize("with_reference", [False, True])
def test_listed_triplets_have_the_gradient_that_autograd_finds(with_reference):
    embeddings, labels = small_batch(11, sizes=(5, 4, 6, 1))
    found, expected = embeddings.clone().requires_grad_(), embeddings.clone().requires_grad_()
    anchor, positive, negative = as_indices(all_triplets(labels.tolist())[::3])
    reference = (found, labels.clone()) if with_reference else ()
    SNR(regularization=0.1)(found, labels, (anchor, positive, negative), *reference).backward()
    centred = expected - expected.mean(1, keepdim=True)
    variance = centred.square().sum(1)
    noise = (centred.unsqueeze(1) - centred).square().sum(2) / variance.unsqueeze(1)
    terms = (noise[anchor, positive] - noise[anchor, negative] + 0.2).relu()
    regular = unit_vectors(expected)[anchor.unique()].sum(1).abs().mean()
    (terms.sum() / (terms > 0).sum() + 0.1 * regular).backward()
    torch.testing.assert_close(found.grad, expected.grad)
