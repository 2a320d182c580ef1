"""Top-k precision against loops, its worked examples, and theorems 1 to 4 of the paper over random rankings."""

import pytest
import torch

from tests.losses.loops import as_indices, at_angles, cosine, grad, hinge, small_batch
from unseen.core.randomness import derive, torch_generator
from unseen.losses import TopKPrecision
from unseen.losses.top_k_precision import top_k_terms

MARGIN = 0.25  # and scores in steps of 1/8, where drawn so: every sum and every tie is exact


def in_loops(scores, is_positive, k, margin):
    """One query: the value, N and P as sets of candidates."""
    augmented = [s if positive else s + margin for s, positive in zip(scores, is_positive, strict=True)]
    ranked = sorted(range(len(scores)), key=lambda i: (-augmented[i], i))
    top, rest = ranked[:k], ranked[k:]
    if sum(is_positive) < k:
        entering = [i for i in rest if is_positive[i]]
        negatives = [i for i in top if not is_positive[i]]
        leaving = negatives[len(negatives) - len(entering) :]
    else:
        leaving = [i for i in top if not is_positive[i]]
        entering = [i for i in rest if is_positive[i]][: len(leaving)]
    value = sum(augmented[i] for i in leaving) - sum(augmented[i] for i in entering)
    return value, set(leaving), set(entering)


def sets_of(columns, sign):
    leaving, entering = ([int(c) for c, s in zip(columns, sign, strict=True) if s == wanted] for wanted in (1, -1))
    return set(leaving), set(entering)


def random_rankings(k, rows=600, candidates=11):
    """Rows of scores and masks: smooth, or in eighths with many ties; positives raised by nothing to much."""
    generator = torch_generator(derive(k, "rankings"))
    scores = torch.rand(rows, candidates, generator=generator, dtype=torch.float64) * 2 - 1
    scores[::2] = (scores[::2] * 8).round() / 8
    share = torch.rand(rows, 1, generator=generator)
    positive = torch.rand(rows, candidates, generator=generator) < share
    raised = torch.randint(0, 9, (rows, 1), generator=generator) / 4
    return scores + positive * raised, positive


def sorted_of(scores, mask):
    """The scores under the mask from the highest on, then -inf."""
    return scores.masked_fill(~mask, -torch.inf).sort(dim=1, descending=True).values


def negatives_in_top(scores, positive, k):
    """The precision loss; of equal scores the negative counts first, which only makes the bounds harder."""
    return (~positive).gather(1, (scores - 1e-9 * positive).topk(k, dim=1).indices).sum(1)


@pytest.mark.parametrize("k", [1, 2, 3, 5, 10, 11, 14])
def test_values_and_chosen_sets_equal_the_loops_with_ties_by_place(k):
    scores, positive = random_rankings(k, rows=150)
    values, columns, sign = top_k_terms(scores, positive, ~positive, k=k, margin=MARGIN)
    for row in range(len(scores)):
        value, *sets = in_loops(scores[row].tolist(), positive[row].tolist(), k, MARGIN)
        assert values[row].item() == pytest.approx(value, abs=1e-12)
        assert sets_of(columns[row], sign[row]) == tuple(sets)


@pytest.mark.parametrize("k", range(1, 11))
def test_theorems_1_and_3_the_loss_bounds_the_precision_loss_from_above(k):
    scores, positive = random_rankings(k)
    value, _, _ = top_k_terms(scores, positive, ~positive, k=k, margin=MARGIN)
    count = positive.sum(1)
    unavoidable = (k - count).clamp(min=0)  # theorem 1: n+ < k; in theorem 3, n+ >= k, this is 0
    excess = negatives_in_top(scores, positive, k) - unavoidable
    bound = MARGIN * excess.double()
    assert (value >= bound - 1e-12).all()
    assert (value >= -1e-12).all()
    if k > 1:
        assert (excess[count < k] > 0).any()
    assert (excess[count >= k] > 0).any()


@pytest.mark.parametrize("k", range(1, 11))
def test_theorems_2_and_4_a_ranking_that_is_right_by_the_margin_costs_nothing(k):
    scores, positive = random_rankings(k)
    value, _, sign = top_k_terms(scores, positive, ~positive, k=k, margin=MARGIN)
    count = positive.sum(1)
    is_short = count < k
    best_positives, best_negatives = sorted_of(scores, positive), sorted_of(scores, ~positive)
    # The last positive that fits into the top k, and the first negative that need not be there.
    last = best_positives.gather(1, (torch.where(is_short, count, k) - 1).clamp(min=0).unsqueeze(1)).squeeze(1)
    first = best_negatives.gather(1, torch.where(is_short, k - count, 0).unsqueeze(1)).squeeze(1)
    is_right = (last - first >= MARGIN) & (count > 0) & (count < positive.shape[1])
    assert not value[is_right].any()
    assert not sign[is_right & (last - first > MARGIN)].any()  # at the margin itself equal scores may change places
    unavoidable = (k - count).clamp(min=0)
    assert (negatives_in_top(scores, positive, k)[is_right] == unavoidable[is_right]).all()
    # And only then: a wrong place anywhere costs something.
    is_wrong = (last - first < MARGIN) & (count > 0)
    assert (value[is_wrong] > 0).all()
    assert is_wrong.any()
    if k > 1:
        assert (is_right & is_short).any()
    assert (is_right & ~is_short).any()


@pytest.mark.parametrize("k", [1, 3, 6, 10])
def test_it_is_what_the_top_k_scores_lack_to_those_of_a_perfect_ranking(k):
    # sum over K of raised scores, minus the same over the top k of a ranking that puts all positives first
    scores, positive = random_rankings(k)
    raised = scores + MARGIN * (~positive).double()
    value, _, sign = top_k_terms(scores, positive, ~positive, k=k, margin=MARGIN)
    perfect = (raised + 100 * positive).topk(k, dim=1).indices
    torch.testing.assert_close(value, raised.topk(k, dim=1).values.sum(1) - raised.gather(1, perfect).sum(1))
    assert not sign.sum(1).any()  # as many leave as enter


def test_for_k_1_it_is_the_hinge_of_hardest_negative_and_easiest_positive():
    scores, positive = random_rankings(1)
    has_both = positive.any(1) & ~positive.all(1)
    value, _, _ = top_k_terms(scores, positive, ~positive, k=1, margin=MARGIN)
    gap = sorted_of(scores, ~positive)[:, 0] - sorted_of(scores, positive)[:, 0] + MARGIN
    torch.testing.assert_close(value[has_both], gap[has_both].relu())
    assert not value[~has_both].any()


@pytest.mark.parametrize(("k", "leaving", "entering"), [(2, {0, 2}, {1, 3}), (4, {2, 4}, {3, 5})])
def test_the_worked_examples_of_both_cases(k, leaving, entering):
    scores = torch.tensor([[0.9, 0.8, 0.7, 0.6, 0.5, 0.4]], dtype=torch.float64, requires_grad=True)
    positive = torch.tensor([[False, True] * 3])
    value, columns, sign = top_k_terms(scores, positive, ~positive, k=k, margin=0.15)
    assert value.item() == pytest.approx(0.5)
    assert sets_of(columns[0], sign[0]) == (leaving, entering)
    value.sum().backward()
    assert grad(scores)[0].tolist() == [(i in leaving) - (i in entering) for i in range(6)]


def test_ties_go_to_the_earlier_place_in_single_precision_too():
    scores = torch.full((1, 300), 0.3)
    positive = torch.arange(300).unsqueeze(0) % 2 == 1
    _, columns, sign = top_k_terms(scores, positive, ~positive, k=3, margin=0.1)
    assert sets_of(columns[0], sign[0]) == ({0, 2, 4}, {1, 3, 5})


@pytest.mark.parametrize("k", [1, 2, 3, 5, 8, 20])
def test_a_batch_gives_the_mean_over_queries_that_have_positives(k):
    embeddings, labels = small_batch(1)
    rows, names = embeddings.tolist(), labels.tolist()
    terms = []
    for q, name in enumerate(names):
        others = [i for i in range(len(names)) if i != q]
        if name in [names[i] for i in others]:
            scores = [cosine(rows[q], rows[i]) for i in others]
            terms.append(in_loops(scores, [names[i] == name for i in others], k, 0.1)[0])
    assert len(terms) == len(names) - 1  # one class has a single sample
    loss = TopKPrecision(k=k)
    assert loss(embeddings, labels).item() == pytest.approx(sum(terms) / len(terms), rel=1e-9)
    assert loss.usage.counts()["num_tuples"] == len(terms) * (len(names) - 1)


def test_at_most_k_candidates_cost_nothing():
    embeddings, labels = small_batch(2)
    at, above = (TopKPrecision(k=k)(embeddings, labels).item() for k in (len(labels) - 1, len(labels) + 5))
    assert (at, above) == (0, 0)
    assert TopKPrecision(k=2)(embeddings, labels).item() > 0


def test_indices_keep_only_their_pairs_as_candidates():
    embeddings, labels = at_angles(0, 50, 80, 20, 30), torch.tensor([0, 0, 0, 1, 1])
    rows = embeddings.tolist()
    value = TopKPrecision(k=1)(embeddings, labels, as_indices([(0, 2, 4)]))
    # Of the two positives and two negatives of query 0 one of each is left, neither of them the nearest.
    assert value.item() == pytest.approx(hinge(0.1 + cosine(rows[0], rows[4]) - cosine(rows[0], rows[2])))


def test_a_reference_set_holds_the_candidates():
    embeddings, labels = small_batch(3)
    reference, names = small_batch(4)
    loss = TopKPrecision(k=2)
    terms = []
    for row, label in zip(embeddings.tolist(), labels.tolist(), strict=True):
        scores = [cosine(row, other) for other in reference.tolist()]
        terms.append(in_loops(scores, (names == label).tolist(), 2, 0.1)[0])
    value = loss(embeddings, labels, ref_emb=reference, ref_labels=names)
    assert value.item() == pytest.approx(sum(terms) / len(terms), rel=1e-9)


def test_it_has_neither_miner_nor_parameters():
    loss = TopKPrecision()
    assert loss.miner is None
    assert loss.own_parameters() == []
