"""The robust loss: how it is built, which pairs it counts, and the known losses that it equals."""

import math

import pytest
import torch

from tests.helpers.present import present
from tests.losses.loops import cosine, distance, hinge, negatives, positives, small_batch
from unseen.core.config import build, record_of
from unseen.core.errors import ConfigError
from unseen.core.registry import loss as losses
from unseen.core.registry import uncertainty as sets
from unseen.losses import BinomialPair, Contrastive, ContrastivePair, MarginPair, Pairs
from unseen.miners import MultiSimilarity
from unseen.pairs.tuples import PairMasks
from unseen.robust import KL, ChiSquare, GroupedKL, Max, Mean, Robust, TopK, TopKBalanced


def unordered(rows, labels):
    """Loss of the margin of pairs for each unordered pair, and whether it is positive."""
    found = []
    for i in range(len(rows)):
        for j in range(i + 1, len(rows)):
            sign = 1 if labels[i] == labels[j] else -1
            found.append((hinge(0.2 + sign * (0.5 - cosine(rows[i], rows[j]))), sign > 0))
    return found


def test_it_is_built_from_instances_and_from_a_record():
    made = build(losses, "robust:pair_loss=(margin_pair:margin=0.3),uncertainty=(top_k:k=160)")
    assert isinstance(made.pair_loss, MarginPair)
    assert isinstance(made.uncertainty, TopK)
    assert (made.pair_loss.margin, made.uncertainty.k, made.remove_zero) == (0.3, 160, True)
    record = record_of(losses, Robust(MarginPair(margin=0.3), TopK(160)))
    assert record_of(losses, made) == record
    assert isinstance(build(losses, "robust:pair_loss=margin_pair,uncertainty=(top_k:k=160)").pair_loss, MarginPair)


def test_what_is_no_pair_loss_or_no_set_is_refused():
    with pytest.raises(ConfigError, match=r"with a value per pair \(`terms`\); got 'Contrastive'"):
        Robust(Contrastive(), KL())  # type: ignore[arg-type]  # the error under test
    with pytest.raises(ConfigError, match="must be an uncertainty set"):
        Robust(MarginPair(), 160)  # type: ignore[arg-type]  # the error under test
    with pytest.raises(ConfigError, match="remove_zero"):
        Robust(MarginPair(), KL(), remove_zero="no")  # type: ignore[arg-type]  # the error under test


@pytest.mark.parametrize("pair_loss", [MarginPair(), BinomialPair(), ContrastivePair()], ids=lambda x: type(x).__name__)
def test_around_the_mean_it_is_the_pair_loss(pair_loss):
    embeddings, labels = small_batch(4)
    expected = pair_loss(embeddings, labels)
    torch.testing.assert_close(Robust(pair_loss, Mean(), remove_zero=False)(embeddings, labels), expected)


def test_k_counts_unordered_pairs_and_usage_says_how_many_there_were_and_weigh():
    embeddings, labels = small_batch(5)
    found = sorted((x for x, _ in unordered(embeddings.tolist(), labels.tolist())), reverse=True)
    loss = Robust(MarginPair(), TopK(6))
    assert loss(embeddings, labels).item() == pytest.approx(sum(found[:6]) / 6, rel=1e-10)
    assert present(loss.usage).counts()["num_tuples"] == len(found)
    assert present(loss.usage).counts()["num_active"] == 6
    left = [x for x in found if x > 0]
    many = Robust(MarginPair(), TopK(1000))
    assert many(embeddings, labels).item() == pytest.approx(sum(left) / len(left), rel=1e-10)
    assert present(many.usage).counts()["num_active"] == len(left)
    assert Robust(MarginPair(), Max())(embeddings, labels).item() == pytest.approx(found[0])


def test_pairs_without_loss_are_left_out_before_weights_are_found():
    embeddings, labels = small_batch(5)
    found = torch.tensor([x for x, _ in unordered(embeddings.tolist(), labels.tolist())], dtype=torch.float64)
    for remove_zero in (True, False):
        values = found[found > 0] if remove_zero else found
        assert (found == 0).any()
        expected = 0.3 * ((values / 0.3).exp().mean().log())
        value = Robust(MarginPair(), KL(gamma=0.3), remove_zero=remove_zero)(embeddings, labels)
        torch.testing.assert_close(value, expected, rtol=1e-10, atol=0)


@pytest.mark.parametrize("uncertainty", [Mean(), Max(), TopK(), TopKBalanced(), KL(), ChiSquare(), GroupedKL()])
def test_a_batch_without_losses_gives_a_connected_zero_and_was_not_empty(uncertainty):
    embeddings = torch.eye(3, dtype=torch.float64).repeat_interleave(2, 0).requires_grad_()
    loss = Robust(MarginPair(), uncertainty)
    value = loss(embeddings, torch.arange(6) // 2)
    value.backward()
    assert value.item() == 0
    assert not present(embeddings.grad).any()
    assert not present(loss.usage).is_empty
    assert present(loss.usage).counts()["num_active"] == 0


def test_the_miner_of_the_pair_loss_chooses_the_pairs():
    embeddings, labels = small_batch(6)
    masks = MultiSimilarity().masks(Pairs(embeddings, labels).detached, 0)
    chosen = masks.positive | masks.negative
    chosen = (chosen | chosen.T).triu(1)
    values = BinomialPair().terms(Pairs(embeddings, labels)).values[chosen]
    loss = Robust(BinomialPair(miner=MultiSimilarity()), Mean())
    torch.testing.assert_close(loss(embeddings, labels, key=1), values.mean())
    assert present(loss.usage).counts()["num_tuples"] == chosen.sum()


def test_with_a_reference_set_every_row_and_column_is_a_pair():
    embeddings, labels = small_batch(7)
    reference, names = small_batch(8, sizes=(2, 3))
    loss = Robust(BinomialPair(), Mean())
    loss(embeddings, labels, ref_emb=reference, ref_labels=names)
    assert present(loss.usage).counts()["num_tuples"] == len(labels) * len(names)


def test_mean_draws_have_the_weighted_gradient():
    embeddings, labels = small_batch(9)
    exact = embeddings.clone().requires_grad_()
    Robust(MarginPair(), KL(gamma=0.3))(exact, labels).backward()
    drawn = embeddings.clone().requires_grad_()
    Robust(MarginPair(), KL(gamma=0.3, samples=400_000))(drawn, labels, key=3).backward()
    # The standard error of 400,000 draws is 1.6e-3 of one pair's gradient.
    torch.testing.assert_close(drawn.grad, exact.grad, rtol=0, atol=1e-2 * present(exact.grad).norm().item())
    few = Robust(MarginPair(), KL(gamma=0.3, samples=5))
    values = {few(embeddings, labels, key=key).item() for key in range(20)}
    assert len(values) > 10
    assert few(embeddings, labels, key=1).item() == few(embeddings, labels, key=1).item()


# ----- identities: known losses as special cases -----


def both_kinds(seed=10):
    return small_batch(seed, sizes=(5, 4, 6, 3))


def gradient(loss, embeddings, labels):
    leaf = embeddings.clone().requires_grad_()
    value = loss(leaf, labels)
    value.backward()
    return value.item(), leaf.grad


def lifted_structure(embeddings, labels):
    """Lifted structure by loops over anchors, with torch only for the gradient; also its number of active anchors."""
    unit = embeddings / embeddings.norm(dim=1, keepdim=True)
    names, total, active = labels.tolist(), torch.zeros((), dtype=embeddings.dtype), 0
    for i in range(len(names)):
        pull = torch.stack([(0.5 - unit[i] @ unit[k]).exp() for k in positives(names, i)]).sum().log()
        push = torch.stack([(unit[i] @ unit[k] - 0.5).exp() for k in negatives(names, i)]).sum().log()
        active += bool(pull + push > 0)
        total = total + (pull + push).relu()
    return total, active


def test_gamma_one_by_anchor_and_sign_has_the_gradient_of_lifted_structure():
    embeddings, labels = both_kinds()
    found, slope = gradient(
        Robust(MarginPair(margin=3), GroupedKL(gamma_positive=1, gamma_negative=1)), embeddings, labels
    )
    leaf = embeddings.clone().requires_grad_()
    expected, active = lifted_structure(leaf, labels)
    expected.backward()
    assert active == len(labels)  # the hinge of lifted structure is active for every anchor
    torch.testing.assert_close(slope, leaf.grad, rtol=1e-10, atol=1e-12)
    counts = [(len(positives(labels.tolist(), i)), len(negatives(labels.tolist(), i))) for i in range(len(labels))]
    shift = sum(2 * 3 - math.log(p * n) for p, n in counts)
    assert found == pytest.approx(expected.item() + shift, rel=1e-6)


@pytest.mark.parametrize("sizes", [(5, 4, 6, 3), (3, 2, 4, 1)], ids=["all have positives", "one anchor has none"])
def test_pseudo_pairs_and_the_inverse_sharpnesses_have_the_gradient_of_multi_similarity(sizes):
    from unseen.losses import MultiSimilarity as MultiSimilarityLoss

    embeddings, labels = small_batch(11, sizes=sizes)
    groups = GroupedKL(gamma_positive=1 / 2, gamma_negative=1 / 40, pseudo_pairs=True, reduction="mean")
    robust = Robust(MarginPair(margin=3, threshold=0.5), groups)
    found, slope = gradient(robust, embeddings, labels)
    value, expected = gradient(MultiSimilarityLoss(alpha=2, beta=40, threshold=0.5), embeddings, labels)
    torch.testing.assert_close(slope, expected, rtol=1e-10, atol=1e-12)
    names = labels.tolist()
    shift = 0.0
    for i in range(len(names)):
        p, n = len(positives(names, i)), len(negatives(names, i))
        if p and n:
            shift += (
                6 - torch.tensor(p + 1.0).double().log().item() / 2 - torch.tensor(n + 1.0).double().log().item() / 40
            )
    assert found == pytest.approx(value + shift / len(names), rel=1e-10)


def test_losses_of_distance_by_anchor_and_sign_have_the_weights_of_hap2s():
    embeddings, labels = both_kinds(12)
    pairs, sigma = Pairs(embeddings, labels), 0.5
    terms = MarginPair().terms(pairs)
    terms = terms._replace(values=torch.where(pairs.same, pairs.distance, -pairs.distance))
    weights = GroupedKL(gamma_positive=sigma, gamma_negative=sigma).worst_case(terms).weights
    rows, names = embeddings.tolist(), labels.tolist()
    for i in range(len(names)):
        for group, sign in ((positives(names, i), 1), (negatives(names, i), -1)):
            d = torch.tensor([distance(rows[i], rows[k]) for k in group], dtype=torch.float64)
            torch.testing.assert_close(weights[i, group], (sign * d / sigma).softmax(0), rtol=1e-10, atol=0)


@pytest.mark.parametrize("name", sets.names())
def test_masks_known_to_be_symmetric_give_what_masks_chosen_by_hand_give(name):
    embeddings = torch.randn(12, 5, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    pairs = Pairs(embeddings, torch.arange(12) // 3)
    terms = MarginPair().terms(pairs)
    by_hand = terms.chosen(PairMasks(pairs.positive.clone(), pairs.negative.clone()))
    assert terms.is_symmetric
    assert not by_hand.is_symmetric
    assert terms.total() == by_hand.total() == 12 * 11 // 2
    uncertainty = build(sets, name)
    found, expected = (uncertainty.worst_case(each.without_zeros(), key=1) for each in (terms, by_hand))
    torch.testing.assert_close(found.value, expected.value)
    torch.testing.assert_close(found.weights, expected.weights)
