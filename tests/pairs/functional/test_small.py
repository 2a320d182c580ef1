"""Compiled loops of small batches against the operators that they stand for: every loss, miner and building block."""

import math

import numpy as np
import pytest
import torch

from tests.contracts.degenerate_batches import DEGENERATE, normal, ordinary_batch, random_batches
from tests.contracts.loss_cases import CASES
from unseen.core import registry
from unseen.core.config import build
from unseen.core.errors import BatchError
from unseen.core.machine.compiled import IS_COMPILED
from unseen.core.randomness import torch_generator
from unseen.losses import Angular, Margin, NPair, Pairs, Triplet
from unseen.miners import SemiHard
from unseen.pairs import functional
from unseen.pairs.functional import small
from unseen.robust import GroupedKL, Robust

pytestmark = pytest.mark.skipif(not IS_COMPILED, reason="numba is not installed")

FLAT, STEEP = 1e-5, 3e-4
"""Tolerances; where vectors coincide the distance has a slope of up to 1e4, and rounding grows by it."""

SAMPLED = ("kl:samples=9", "grouped_kl:grouping=sign", "grouped_kl:pseudo_pairs=true", "grouped_kl:reduction=mean")


@pytest.fixture
def both_ways(monkeypatch):
    """Runs a function by compiled loops, then by operators; returns both results."""

    def run(function):
        assert small.is_small(torch.ones(2, 2))
        compiled = function()
        with monkeypatch.context() as patch:
            patch.setattr(small, "IS_COMPILED", False)
            assert not small.is_small(torch.ones(2, 2))
            return compiled, function()

    return run


def outcome(loss, embeddings, labels, **arguments):
    """Value, gradients of embeddings (times their lengths) and of own parameters, and counts."""
    embeddings = embeddings.float().requires_grad_()
    loss.zero_grad()
    value = loss(embeddings, labels, key=3, **arguments)
    value.backward()
    lengths = embeddings.detach().double().norm(dim=1, keepdim=True)
    assert embeddings.grad is not None
    gradients = [
        embeddings.grad.double() * lengths,
        *(p.grad.double() for p in loss.parameters() if p.grad is not None),
    ]
    return value.detach(), gradients, loss.usage.counts()


def assert_same(found, expected, *, words="", tolerance=FLAT):
    """Equal up to the rounding of similarities, about 1e-7, times the steepness of the loss."""
    value, gradients, counts = found
    other_value, other_gradients, other_counts = expected
    assert counts == other_counts, words
    torch.testing.assert_close(value, other_value, rtol=2e-6, atol=tolerance / 10, msg=lambda text: f"{words}: {text}")
    assert len(gradients) == len(other_gradients)
    for gradient, other in zip(gradients, other_gradients, strict=True):
        scale = max(1.0, float(other.abs().amax()))
        torch.testing.assert_close(
            gradient / scale, other / scale, rtol=0, atol=tolerance, msg=lambda text: f"{words}: {text}"
        )


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_loss_is_the_same_by_loops_and_by_operators(case, both_ways):
    for number, (embeddings, labels) in enumerate([ordinary_batch(), ordinary_batch(5), *random_batches(12)]):
        loss = case.build(embeddings.shape[1])
        tolerance = STEEP if "rho_distance" in str(case) else FLAT
        assert_same(*both_ways(lambda: outcome(loss, embeddings, labels)), words=f"batch {number}", tolerance=tolerance)  # noqa: B023


@pytest.mark.parametrize("name", registry.loss.names())
def test_every_loss_is_the_same_on_degenerate_batches(name, both_ways):
    case = next(case for case in CASES if case.name == name)
    for words, (embeddings, labels) in DEGENERATE.items():
        if "10^9" in words or "negative labels" in words:
            labels = labels.unique(return_inverse=True)[1]
        loss = case.build(embeddings.shape[1], num_classes=40)
        tolerance = 50 * STEEP if name == "generalized_lifted" else STEEP  # no unit vectors: no exact length either
        assert_same(*both_ways(lambda: outcome(loss, embeddings, labels)), words=words, tolerance=tolerance)  # noqa: B023


@pytest.mark.parametrize("name", registry.miner.names())
def test_every_miner_selects_the_same_tuples_to_the_last_index(name, both_ways):
    batches = [*DEGENERATE.values(), *random_batches(30), ordinary_batch()]
    miner = build(registry.miner, name)
    for embeddings, labels in batches:
        found, expected = both_ways(lambda: miner(embeddings.float(), labels, key=11))  # noqa: B023
        assert all(map(torch.equal, found, expected))


@pytest.mark.parametrize("name", ["distance", "rho_distance", "random", "semi_hard", "soft_hard"])
def test_several_triplets_per_anchor_are_the_same(name, both_ways):
    miner = build(registry.miner, f"{name}:per_anchor=3")
    embeddings, labels = normal(112, 64, seed=4, dtype=torch.float32), torch.arange(112) // 4
    found, expected = both_ways(lambda: miner(embeddings, labels, key=2))
    assert all(map(torch.equal, found, expected))
    assert len(found.anchor) == 336


def test_weights_by_distance_are_equal_to_the_bit_without_a_cut_off_and_where_all_are_beyond_it(both_ways):
    for settings in ("distance", "distance:upper_cutoff=none", "distance:upper_cutoff=0.6"):
        miner = build(registry.miner, settings)
        embeddings, labels = normal(50, 512, seed=1, dtype=torch.float32), torch.arange(50) // 2
        found, expected = both_ways(lambda: miner.weights(Pairs(embeddings, labels).detached))  # noqa: B023
        assert torch.equal(found, expected)


@pytest.mark.parametrize("uncertainty", [*registry.uncertainty.names(), *SAMPLED])
def test_robust_losses_with_and_without_zeros_are_the_same(uncertainty, both_ways):
    for remove_zero in (True, False):
        for embeddings, labels in [ordinary_batch(), *random_batches(6)]:
            loss = build(
                registry.loss,
                {"name": "robust", "pair_loss": "margin_pair", "uncertainty": uncertainty, "remove_zero": remove_zero},
            )
            assert_same(*both_ways(lambda: outcome(loss, embeddings, labels)), words=uncertainty)  # noqa: B023


def test_a_reference_set_is_the_same(both_ways):
    embeddings, labels = ordinary_batch()
    others, other_labels = normal(23, embeddings.shape[1], seed=8, dtype=torch.float32), torch.arange(23) % 7
    for case in CASES:
        loss = case.build(embeddings.shape[1])
        if "ref_emb" not in loss.forward.__code__.co_varnames or case.name == "cross_batch_memory":
            continue
        reference = {"ref_emb": others, "ref_labels": other_labels}
        assert_same(*both_ways(lambda: outcome(loss, embeddings, labels, **reference)), words=str(case))  # noqa: B023


def test_settings_that_leave_the_loops_or_have_gradients_of_their_own_are_the_same(both_ways):
    embeddings, labels = ordinary_batch()
    for loss in (
        Angular(exponent_limit=50),
        Angular(regularizer="norm", nu=0.3),
        NPair(regularizer="norm", nu=0.3, embedding_divisor=4),
        NPair(nu=0),
        Margin(beta_mode="per_class", num_classes=5, miner=SemiHard(per_anchor=2), nu=0.1),
        Margin(beta_mode="global", miner=SemiHard(), normalizer="none"),
        Triplet(squared=False, reduction="active", miner=SemiHard()),
        Robust(build(registry.loss, "binomial_pair"), GroupedKL(gamma_positive=0.01, pseudo_pairs=True)),
    ):
        assert_same(*both_ways(lambda: outcome(loss, embeddings, labels)), words=str(loss))  # noqa: B023


def test_what_loops_cannot_take_or_need_not_takes_the_operators():
    assert not small.is_small(torch.empty(small.SMALL + 1))
    assert not small.is_small(torch.empty(4, dtype=torch.float64))
    assert not small.is_small(torch.empty(4, device="meta"))
    assert not small.is_small(torch.nn.Parameter(torch.empty(4)))


def test_powers_of_two_are_right_to_a_few_bits_and_zero_below():
    from unseen.pairs.kernels.exponentials import exp2_in_place

    exponents = np.concatenate((np.linspace(-130, 127, 10_001), [-1e30, -126.0, -0.5, 0.0, 0.5, 1.0])).astype(
        np.float32
    )
    found = exponents.copy()
    exp2_in_place(found, np.empty(len(found), np.int32))
    expected = np.exp2(exponents.astype(np.float64))
    is_normal = exponents >= -126
    assert np.abs(found[is_normal] / expected[is_normal] - 1).max() < 2e-7
    assert not found[~is_normal].any()


@pytest.mark.parametrize("function", ["log_sum_exp", "log1p_sum_exp"])
def test_sums_of_exponentials_neither_overflow_nor_vanish(function, both_ways):
    generator = torch_generator(0)
    values = torch.randn(6, 9, generator=generator) * torch.logspace(-3, 5, 6).unsqueeze(1)
    masks = (torch.rand(6, 9, generator=generator) < 0.5, torch.rand(6, 9, generator=generator) < 0.5)
    masks[0][2] = False

    def run():
        source = values.clone().requires_grad_()
        result = getattr(functional, function)(source, masks, scale=(-3.0, 2.0), center=(0.5, -1.0))
        (result * torch.arange(1.0, 13.0).view(2, 6)).sum().backward()
        assert result.isfinite().all()
        return result.detach(), source.grad

    found, expected = both_ways(run)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=2e-5, atol=1e-5)


def test_embeddings_in_any_layout_are_the_same(both_ways):
    embeddings, labels = ordinary_batch()
    transposed = embeddings.T.contiguous().T
    loss = build(registry.loss, "margin:miner=distance")
    for batch in (transposed, embeddings.repeat_interleave(2, 1)[:, ::2]):
        assert_same(*both_ways(lambda: outcome(loss, batch, labels)))  # noqa: B023


def test_a_gradient_that_is_one_number_for_all_pairs_is_the_same(both_ways):
    """Such a gradient has a stride of 0, which loops must not read as a matrix."""

    def run():
        rows = normal(12, 5, dtype=torch.float32).requires_grad_()
        functional.cosines(rows).sum().backward()
        return rows.grad

    torch.testing.assert_close(*both_ways(run), rtol=0, atol=1e-6)


def test_nan_and_infinity_are_found_with_their_row(both_ways):
    for broken in (math.nan, math.inf, -math.inf):
        embeddings = torch.ones(7, 5)
        embeddings[4, 2] = broken

        def run(rows=embeddings):
            with pytest.raises(BatchError, match="row 4"):
                Pairs(rows, torch.arange(7))

        both_ways(run)
