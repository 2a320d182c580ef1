"""Grouped KL: its three groupings, its pseudo-pairs, and its limits."""

import math

import pytest
import torch

from tests.losses.loops import small_batch
from unseen.core.errors import ConfigError
from unseen.losses import BinomialPair, ContrastivePair, MarginPair, Pairs
from unseen.robust import KL, GroupedKL, Robust


def terms(seed=1, **settings):
    embeddings, labels = small_batch(seed)
    return MarginPair(**settings).terms(Pairs(embeddings, labels))


def soft_maximum(losses, gamma, pseudo=()):
    losses = [*losses, *pseudo]
    return gamma * math.log(sum(math.exp(x / gamma) for x in losses) / len(losses)) if losses else 0.0


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("pseudo_pairs", [False, True])
def test_by_anchor_and_sign_it_equals_the_loops(pseudo_pairs, reduction):
    found = terms()
    pseudo = [0.2] if pseudo_pairs else []
    expected = 0.0
    for i in range(len(found.values)):
        groups = [found.values[i][mask[i]].tolist() for mask in (found.is_positive, found.is_negative)]
        if all(groups):
            expected += soft_maximum(groups[0], 0.3, pseudo) + soft_maximum(groups[1], 0.2, pseudo)
    if reduction == "mean":
        expected /= len(found.values)
    grouped = GroupedKL(gamma_positive=0.3, gamma_negative=0.2, pseudo_pairs=pseudo_pairs, reduction=reduction)
    assert grouped.worst_case(found).value.item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("pseudo_pairs", [False, True])
def test_by_sign_it_is_the_mean_of_the_soft_maxima_of_both_kinds(pseudo_pairs):
    found = terms()
    pseudo = [0.2] if pseudo_pairs else []
    positive, negative = (found.values[mask.triu(1)].tolist() for mask in (found.is_positive, found.is_negative))
    expected = (soft_maximum(positive, 0.3, pseudo) + soft_maximum(negative, 0.2, pseudo)) / 2
    grouped = GroupedKL(gamma_positive=0.3, gamma_negative=0.2, grouping="sign", pseudo_pairs=pseudo_pairs)
    assert grouped.worst_case(found).value.item() == pytest.approx(expected, rel=1e-12)


def test_over_all_it_is_kl():
    found = terms().without_zeros()
    one, other = GroupedKL(grouping="all").worst_case(found), KL(gamma=0.1).worst_case(found)
    torch.testing.assert_close(one.value, other.value)
    torch.testing.assert_close(one.weights, other.weights)
    with pytest.raises(ConfigError, match="both gammas must be equal"):
        GroupedKL(grouping="all", gamma_positive=0.5)


def test_weights_of_each_group_sum_to_one_and_to_less_with_a_pseudo_pair():
    found = terms()
    weights = GroupedKL().worst_case(found).weights
    held = GroupedKL(pseudo_pairs=True).worst_case(found).weights
    is_anchor = found.anchors()
    assert not is_anchor.all()  # the class of one sample has no positives
    for mask in (found.is_positive, found.is_negative):
        torch.testing.assert_close((weights * mask).sum(1), is_anchor.double())
        assert ((held * mask).sum(1)[is_anchor] < 1).all()


def test_a_small_gamma_takes_the_hardest_pair_of_each_group():
    found = terms(margin=3)
    weights = GroupedKL(gamma_positive=1e-6, gamma_negative=1e-6).worst_case(found).weights
    for i in found.anchors().nonzero()[:, 0].tolist():
        for mask in (found.is_positive[i], found.is_negative[i]):
            hardest = found.values[i].masked_fill(~mask, -1).argmax()
            assert (weights[i] * mask).argmax() == hardest
            assert weights[i, hardest].item() == pytest.approx(1)


def test_a_group_that_lost_all_its_pairs_adds_nothing_and_leaves_the_other_group_alone():
    values = torch.tensor([[0.0, 0.0, 0.4, 0.6]], dtype=torch.float64)
    is_positive = torch.tensor([[True, True, False, False]])
    found = MarginPair().terms(Pairs(torch.eye(2), torch.tensor([0, 1])))
    found = found._replace(values=values, is_positive=is_positive, is_negative=~is_positive, is_mutual=False)
    value = GroupedKL(pseudo_pairs=True).worst_case(found.without_zeros()).value
    assert value.item() == pytest.approx(soft_maximum([0.4, 0.6], 0.1, [0.2]))


def test_pseudo_pairs_need_a_neutral_similarity():
    embeddings, labels = small_batch(2)
    assert Robust(BinomialPair(), GroupedKL(pseudo_pairs=True))(embeddings, labels).isfinite()
    with pytest.raises(ConfigError, match="no neutral similarity"):
        Robust(ContrastivePair(), GroupedKL(pseudo_pairs=True))(embeddings, labels)
