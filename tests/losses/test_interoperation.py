"""Our losses with pytorch-metric-learning's miners, its losses with ours, and both libraries' values side by side."""

import warnings

import pytest
import torch
from loops import small_batch

import unseen

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    theirs = pytest.importorskip("pytorch_metric_learning")
    from pytorch_metric_learning import losses, miners
    from pytorch_metric_learning.distances import CosineSimilarity, LpDistance
    from pytorch_metric_learning.reducers import MeanReducer

OUR_TUPLE_LOSSES = [
    unseen.losses.Contrastive(),
    unseen.losses.Triplet(),
    unseen.losses.Margin(),
    unseen.losses.MultiSimilarity(),
]
THEIR_MINERS = [
    miners.DistanceWeightedMiner(),
    miners.MultiSimilarityMiner(),
    miners.TripletMarginMiner(),
    miners.BatchHardMiner(),
]
OUR_MINERS = [
    unseen.miners.Random(),
    unseen.miners.SemiHard(),
    unseen.miners.DistanceWeighted(),
    unseen.miners.MultiSimilarity(),
]


def name_of(component):
    return type(component).__name__


@pytest.mark.parametrize("miner", THEIR_MINERS, ids=name_of)
@pytest.mark.parametrize("loss", OUR_TUPLE_LOSSES, ids=name_of)
def test_our_losses_take_tuples_of_their_miners(loss, miner):
    embeddings, labels = small_batch()
    embeddings = embeddings.float().requires_grad_()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        value = loss(embeddings, labels, miner(embeddings, labels))
    value.backward()
    assert value.isfinite()
    assert embeddings.grad.any()


@pytest.mark.parametrize("miner", OUR_MINERS, ids=name_of)
@pytest.mark.parametrize(
    "loss", [losses.MarginLoss(), losses.TripletMarginLoss(), losses.ContrastiveLoss()], ids=name_of
)
def test_their_losses_take_tuples_of_our_miners(loss, miner):
    embeddings, labels = small_batch()
    embeddings = embeddings.float().requires_grad_()
    value = loss(embeddings, labels, miner(embeddings, labels, key=1))
    value.backward()
    assert value.isfinite()
    assert embeddings.grad.any()


PAIRS_OF_LOSSES = [
    (unseen.losses.Margin(beta=0.9), losses.MarginLoss(beta=0.9), True),
    (
        unseen.losses.Triplet(),
        losses.TripletMarginLoss(margin=0.2, distance=LpDistance(power=2), reducer=MeanReducer()),
        True,
    ),
    (unseen.losses.Triplet(squared=False, reduction="active"), losses.TripletMarginLoss(margin=0.2), True),
    (unseen.losses.Contrastive(), losses.ContrastiveLoss(reducer=MeanReducer()), True),
    (unseen.losses.MultiSimilarity(beta=50.0), losses.MultiSimilarityLoss(), False),
]


@pytest.mark.parametrize(("ours", "other", "with_triplets"), PAIRS_OF_LOSSES, ids=lambda x: name_of(x))
def test_values_agree_where_the_definitions_do(ours, other, with_triplets):
    # Classes of two and more: they keep the pull of an anchor without negatives, we drop it.
    embeddings, labels = small_batch(3, sizes=(3, 2, 4))
    embeddings = embeddings.float()
    calls = [None, unseen.miners.Random()(embeddings, labels, key=2)] if with_triplets else [None]
    for indices in calls:
        mine, yours = (loss(embeddings, labels, indices) for loss in (ours, other))
        # 1e-3: they measure float32 distances by another route, without our epsilon.
        torch.testing.assert_close(mine, yours, rtol=1e-3, atol=1e-5)


def test_proxy_losses_agree_on_the_same_proxies():
    embeddings, labels = small_batch(4, sizes=(3, 3, 3))
    ours = unseen.losses.ProxyAnchor(num_classes=3, embedding_size=5)
    other = losses.ProxyAnchorLoss(num_classes=3, embedding_size=5, margin=0.1, alpha=32)
    other.proxies.data = ours.proxies.data
    torch.testing.assert_close(
        ours(embeddings.float(), labels), other(embeddings.float(), labels), rtol=1e-4, atol=1e-4
    )
    softmax = unseen.losses.NormalizedSoftmax(num_classes=3, embedding_size=5)
    other = losses.NormalizedSoftmaxLoss(num_classes=3, embedding_size=5, temperature=0.05)
    other.W.data = softmax.proxies.data.T.clone()
    torch.testing.assert_close(softmax(embeddings.float(), labels), other(embeddings.float(), labels))


def test_our_loss_works_inside_their_wrapper_of_several_losses():
    embeddings, labels = small_batch()
    embeddings = embeddings.float()
    ours, other = unseen.losses.Contrastive(), losses.TripletMarginLoss()
    mined = unseen.miners.Random()(embeddings, labels, key=1)
    joint = losses.MultipleLosses([ours, other], weights=[1.0, 0.5])(embeddings, labels, mined)
    torch.testing.assert_close(joint, ours(embeddings, labels, mined) + 0.5 * other(embeddings, labels, mined))


def test_a_reference_set_comes_by_position_as_their_code_passes_it():
    embeddings, labels = small_batch(0)
    reference = small_batch(1)
    for loss in OUR_TUPLE_LOSSES:
        by_name = loss(embeddings, labels, ref_emb=reference[0], ref_labels=reference[1])
        assert torch.equal(loss(embeddings, labels, None, *reference), by_name)


def test_the_cosine_of_their_distance_is_our_similarity():
    embeddings, labels = small_batch()
    pairs = unseen.losses.Pairs(embeddings, labels)
    torch.testing.assert_close(pairs.similarity, CosineSimilarity()(embeddings))
