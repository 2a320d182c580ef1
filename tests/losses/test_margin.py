"""Margin against loops, and the rules for its boundary."""

import pytest
import torch

from tests.losses.loops import all_triplets, as_indices, at_angles, distance, grad, hinge, small_batch
from unseen.core.config import build
from unseen.core.errors import BatchError, ConfigError
from unseen.core.registry import loss as losses
from unseen.losses import Margin
from unseen.miners import DistanceWeighted

NORMALIZERS = ["active_pairs", "active_triplets", "none"]


def in_loops(rows, labels, triplets, beta, margin=0.2, nu=0.0, normalizer="active_pairs"):
    pull = [hinge(distance(rows[a], rows[p]) - beta[labels[a]] + margin) for a, p, _ in triplets]
    push = [hinge(beta[labels[a]] - distance(rows[a], rows[n]) + margin) for a, _, n in triplets]
    if normalizer == "active_pairs":
        count = sum(x > 0 for x in pull) + sum(x > 0 for x in push)
    elif normalizer == "active_triplets":
        count = sum(x > 0 or y > 0 for x, y in zip(pull, push, strict=True))
    else:
        count = 1
    return (sum(pull) + sum(push)) / max(1, count) + nu * sum(beta[labels[a]] for a, _, _ in triplets)


@pytest.mark.parametrize("nu", [0.0, 0.01])
@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize("beta_mode", ["constant", "global", "per_class"])
def test_it_equals_the_loops_over_all_triplets_and_over_some(beta_mode, normalizer, nu):
    embeddings, labels = small_batch(1)
    settings = {"margin": 0.15, "nu": nu, "normalizer": normalizer}
    loss = Margin(beta=1.1, beta_mode=beta_mode, num_classes=4, **settings).double()
    beta = [1.1] * 4
    if beta_mode == "per_class":
        beta = [0.9, 1.0, 1.2, 1.4]
        loss.boundary.data = torch.tensor(beta, dtype=torch.float64)
    every = all_triplets(labels.tolist())
    for triplets, indices in [(every, None), (every[::5] * 2, as_indices(every[::5] * 2))]:
        expected = in_loops(embeddings.tolist(), labels.tolist(), triplets, beta, **settings)
        # A learnt boundary starts in float32, where 1.1 is 2e-8 off.
        assert loss(embeddings, labels, indices).item() == pytest.approx(expected, rel=1e-7)
        assert loss.usage.counts()["num_tuples"] == len(triplets)


@pytest.mark.parametrize("indices", [True, False], ids=["listed", "all at once"])
def test_the_boundary_moves_by_the_balance_of_active_pairs(indices):
    embeddings, labels = small_batch(2)
    rows, triplets = embeddings.tolist(), all_triplets(labels.tolist())
    loss = Margin(beta_mode="global").double()
    loss(embeddings, labels, as_indices(triplets) if indices else None).backward()
    pulled = sum(distance(rows[a], rows[p]) - 1.2 + 0.2 > 0 for a, p, _ in triplets)
    pushed = sum(1.2 - distance(rows[a], rows[n]) + 0.2 > 0 for a, _, n in triplets)
    assert grad(loss.boundary).item() == pytest.approx((pushed - pulled) / (pushed + pulled))


def test_only_classes_of_anchors_move_their_boundary():
    embeddings, labels = small_batch(3)
    loss = Margin(beta_mode="per_class", num_classes=7)
    loss(embeddings.float(), labels).backward()
    assert grad(loss.boundary)[:3].all()
    assert not grad(loss.boundary)[3:].any()  # class 3 has one sample, the others none


def test_both_terms_are_zero_exactly_inside_and_outside_the_margins():
    labels, indices = torch.tensor([0, 0, 1]), as_indices([(0, 1, 2)])
    near, far = 2 * torch.tensor([1.0, 1.4]).div(2).asin().rad2deg()  # angles of chords at beta - gamma, beta + gamma
    loss = Margin(beta=1.2, margin=0.2)
    assert loss(at_angles(0, near - 0.01, far + 0.01), labels, indices).item() == 0
    assert loss.usage.counts()["num_active"] == 0
    assert loss(at_angles(0, near + 0.1, far + 0.1), labels, indices).item() > 0
    assert loss(at_angles(0, near - 0.1, far - 0.1), labels, indices).item() > 0


def test_an_anchor_as_its_own_positive_is_not_pulled():
    # The triplets (a, a, p) of rho-regularisation: the positive term is 0 when beta >= gamma, and finite always.
    embeddings = at_angles(0, 30).requires_grad_()
    value = Margin(beta=0.6, margin=0.2)(embeddings, torch.tensor([0, 0]), as_indices([(0, 0, 1)]))
    assert value.item() == pytest.approx(0.6 - 2 * torch.deg2rad(torch.tensor(15.0)).sin().item() + 0.2, rel=1e-6)
    value.backward()
    assert embeddings.grad.isfinite().all()


def test_a_learnt_boundary_is_declared_with_its_own_rate_and_without_decay():
    loss = Margin(beta_mode="global")
    assert loss.own_parameters() == [{"params": [loss.boundary], "lr": 5e-4, "weight_decay": 0.0}]
    assert Margin().own_parameters() == []
    assert list(Margin().parameters()) == []


def test_the_run_supplies_the_number_of_classes():
    loss = build(
        losses, "margin:beta=0.6,beta_mode=per_class,miner=(distance)", {"num_classes": 9, "embedding_size": 3}
    )
    assert loss.boundary.shape == (9,)
    assert isinstance(loss.miner, DistanceWeighted)
    with pytest.raises(ConfigError, match="needs num_classes"):
        Margin(beta_mode="per_class")
    with pytest.raises(BatchError, match="labels must be 0 to 8"):
        loss(at_angles(0, 1), torch.tensor([0, 9]))
