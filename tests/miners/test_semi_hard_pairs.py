"""Semi-hard pairs: the band of similarities, and as many negatives as positives when asked for."""

import pytest
import torch

from tests.miners.frequencies import assert_frequencies, batch
from unseen.core.errors import ConfigError
from unseen.losses import Pairs
from unseen.miners import SemiHardPairs


def test_it_keeps_all_positives_and_the_negatives_of_the_band():
    for seed in range(5):
        embeddings, labels = batch(seed=seed)
        similarity = Pairs(embeddings, labels).similarity.tolist()
        found = SemiHardPairs(threshold=0.4, margin=0.3)(embeddings, labels)
        pulled, pushed = [], []
        for i in range(14):
            for j in range(14):
                if labels[i] == labels[j]:
                    pulled += [(i, j)] if i != j else []
                elif 0.4 - 0.3 < similarity[i][j] < 0.4:
                    pushed.append((i, j))
        assert list(zip(found.anchor_positive.tolist(), found.positive.tolist(), strict=True)) == pulled
        assert list(zip(found.anchor_negative.tolist(), found.negative.tolist(), strict=True)) == pushed
        assert pushed


def test_anchors_without_positives_or_without_negatives_give_no_pair():
    embeddings, labels = batch(sizes=(3, 1, 1))
    found = SemiHardPairs(threshold=1.0, margin=2.5)(embeddings, labels)
    assert found.anchor_negative.unique().tolist() == [0, 1, 2]
    alone = SemiHardPairs(threshold=1.0, margin=2.5)(embeddings[:3], labels[:3])
    assert all(len(part) == 0 for part in alone)


def test_as_many_draws_uniformly_in_the_band_and_never_more_than_it_holds():
    embeddings, labels = batch(seed=1)
    pairs = Pairs(embeddings, labels)
    band = SemiHardPairs(threshold=0.6, margin=0.8).masks(pairs).negative
    expected = torch.minimum(band.sum(1), pairs.positive_count)
    negatives, is_short = [], band.sum(1) < pairs.positive_count
    for key in range(800):
        kept = SemiHardPairs(threshold=0.6, margin=0.8, negatives="as_many").masks(pairs, key)
        assert torch.equal(kept.positive, pairs.positive)
        assert torch.equal(kept.negative.sum(1), expected)
        assert not (kept.negative & ~band).any()
        assert torch.equal(kept.negative[is_short], band[is_short])
        negatives.append(kept.negative[12].nonzero().flatten())
    assert len(negatives[0]) == 1  # a class of two: one positive, one draw
    assert_frequencies(torch.cat(negatives), band[12].double())
    assert band[12].sum() > 1


def test_an_unknown_choice_is_refused():
    with pytest.raises(ConfigError, match="negatives must be one of 'all', 'as_many'"):
        SemiHardPairs(negatives="some")  # type: ignore[arg-type]  # the error under test
