"""Rho-distance mining: the switched triplets, their number, and losses that stay finite on them."""

from typing import Any

import pytest
import torch
from scipy.stats import binom

from tests.helpers.present import present
from tests.miners.frequencies import DRAWS, LIKELIHOOD, assert_frequencies, batch
from unseen.losses import Contrastive, Margin, Pairs, Triplet
from unseen.miners import DistanceWeighted, RhoDistance
from unseen.pairs.tuples import Triplets


def count_switched(triplets: Triplets) -> int:
    return int((triplets.anchor == triplets.positive).sum())


def test_without_switching_it_is_distance_weighting_draw_for_draw():
    embeddings, labels = batch()
    settings: dict[str, Any] = {"lower_cutoff": 0.7, "upper_cutoff": 1.2, "per_anchor": 3}
    for key in range(5):
        found = RhoDistance(p_switch=0.0, **settings)(embeddings, labels, key=key)
        assert all(map(torch.equal, found, DistanceWeighted(**settings)(embeddings, labels, key=key)))
        assert count_switched(found) == 0


def test_with_certain_switching_all_triplets_stay_in_their_class():
    embeddings, labels = batch()
    found = RhoDistance(p_switch=1.0, per_anchor=1000)(embeddings, labels, key=1)
    assert torch.equal(found.positive, found.anchor)
    assert count_switched(found) == len(found.anchor) == 14 * 1000
    for anchor in range(14):
        others = labels == labels[anchor]
        others[anchor] = False
        assert_frequencies(found.negative[found.anchor == anchor], others.double())


def test_the_number_of_switched_triplets_is_binomial():
    embeddings, labels = batch()
    for p_switch in (0.05, 0.35, 0.8):
        found = RhoDistance(p_switch=p_switch, per_anchor=DRAWS)(embeddings, labels, key=1)
        low, high = binom.interval(1 - LIKELIHOOD, 14 * DRAWS, p_switch)
        assert low <= count_switched(found) <= high


def test_unswitched_triplets_are_those_of_distance_weighting():
    embeddings, labels = batch()
    plain = DistanceWeighted(per_anchor=50)(embeddings, labels, key=3)
    found = RhoDistance(p_switch=0.4, per_anchor=50)(embeddings, labels, key=3)
    switched = found.anchor == found.positive
    assert switched.any()
    assert torch.equal(found.positive[~switched], plain.positive[~switched])
    assert torch.equal(found.negative[~switched], plain.negative[~switched])
    assert torch.equal(found.negative[switched], plain.positive[switched])


def test_whether_a_triplet_is_switched_does_not_depend_on_what_was_drawn():
    embeddings, labels = batch()
    plain = DistanceWeighted(per_anchor=DRAWS)(embeddings, labels, key=1)
    found = RhoDistance(p_switch=0.5, per_anchor=DRAWS)(embeddings, labels, key=1)
    of_first = found.anchor == 0
    weights = DistanceWeighted().weights(Pairs(embeddings, labels))[0].double()
    for switched in (True, False):
        chosen = of_first & ((found.anchor == found.positive) == switched)
        assert_frequencies(plain.positive[chosen], Pairs(embeddings, labels).positive[0].double())
        assert_frequencies(plain.negative[chosen], weights)


def test_a_separate_reference_set_switches_nothing():
    embeddings, labels = batch()
    pairs = Pairs(embeddings[:4], labels[:4], embeddings[4:], labels[4:])
    found = RhoDistance(p_switch=1.0)(pairs, key=1)
    assert (labels[:4][found.anchor] != labels[4:][found.negative]).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    "loss",
    [Margin(beta=0.6), Margin(beta=0.1), Triplet(), Triplet(squared=False), Contrastive(), Contrastive(squared=True)],
    ids=lambda loss: type(loss).__name__,
)
def test_switched_triplets_cost_and_push_finitely_and_pull_nothing(loss, dtype):
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(12) // 4
    # Tight classes, so that every push is active.
    centres = torch.randn(3, 8, generator=generator, dtype=torch.float64)
    embeddings = centres[labels] + 0.1 * torch.randn(12, 8, generator=generator, dtype=torch.float64)
    leaf = embeddings.to(dtype).requires_grad_()
    found = RhoDistance(p_switch=1.0)(leaf, labels, key=1)
    value = loss(leaf, labels, found)
    value.backward()
    assert value.isfinite()
    # A distance of 0 moves with nothing: the gradient is that of the pushes alone.
    other = leaf.detach().double().requires_grad_()
    unit = torch.nn.functional.normalize(other)
    push = (unit[found.anchor] - unit[found.negative]).square().sum(1)
    root = (push + 1e-8).sqrt()
    if isinstance(loss, Margin):
        hinge = (loss.beta - root + 0.2).relu()
        pulled = 12 if loss.beta < 0.2 else 0
        expected = hinge.sum() / max(1, int((hinge > 0).sum()) + pulled)
    elif isinstance(loss, Triplet):
        expected = (0.2 - (push if loss.squared else root)).relu().mean()
    else:
        hinge = (1 - root).relu()
        expected = (hinge.square() / 2 if loss.squared else hinge).mean()
    expected.backward()
    slope, wanted = present(leaf.grad), present(other.grad)
    assert (wanted.abs().sum(1) > 0.005).all()
    # 2e-3: at distance 1e-4 the root multiplies float32's rounding of a self-similarity by 1e4; bfloat16 stores 2^-8.
    tolerance = {torch.float64: 1e-9, torch.float32: 2e-3, torch.bfloat16: 2**-7}[dtype]
    torch.testing.assert_close(slope.double(), wanted, rtol=0, atol=tolerance * wanted.abs().max().item())
