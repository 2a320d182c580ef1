"""One positive for each anchor: which are drawn, how often, and from what."""

import torch

from tests.losses.loops import as_indices, small_batch
from unseen.losses import NPair, PairMasks, Pairs
from unseen.pairs.positive_sampling import draw_positives


def test_each_anchor_with_positives_keeps_one_and_all_its_negatives():
    embeddings, labels = small_batch(1)
    pairs = Pairs(embeddings, labels)
    for key in range(20):
        drawn = draw_positives(pairs, PairMasks(pairs.positive, pairs.negative), key)
        assert torch.equal(drawn.is_anchor, pairs.positive_count > 0)
        assert torch.equal(pairs.positive.gather(1, drawn.column).squeeze(1), drawn.is_anchor)
        assert torch.equal(drawn.negative, pairs.negative)


def test_all_positives_are_drawn_equally_often():
    labels = torch.tensor([0, 1, 0, 0, 0, 1])
    pairs = Pairs(torch.ones(6, 2), labels)
    draws = [draw_positives(pairs, PairMasks(pairs.positive, pairs.negative), key).column for key in range(3000)]
    share = (torch.stack(draws) == torch.arange(6)).double().mean(0)
    # Four standard deviations of a share of 1/3 among 3000.
    assert (
        share[pairs.positive] - (1 / pairs.positive_count.double()).unsqueeze(1).expand(6, 6)[pairs.positive]
    ).abs().max() < 0.035


def test_positives_come_only_from_the_tuples_that_are_given():
    embeddings, labels = small_batch(2, sizes=(4, 3))
    zeros, ones = (labels == 0).nonzero()[:, 0].tolist(), (labels == 1).nonzero()[:, 0].tolist()
    indices = as_indices([(zeros[0], zeros[1], ones[0]), (ones[2], ones[1], zeros[3])])
    loss = NPair()
    values = {loss(embeddings, labels, indices, key=key).item() for key in range(8)}
    assert len(values) == 1
    assert loss.usage.counts()["num_tuples"] == 2


def test_another_key_draws_other_positives():
    embeddings, labels = small_batch(3)
    assert len({NPair()(embeddings, labels, key=key).item() for key in range(8)}) > 1
