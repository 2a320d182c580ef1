from typing import Any

import pytest
import torch

from tests.losses.loops import small_batch
from unseen.core import registry
from unseen.core.config import build, complete, record_of
from unseen.core.errors import BatchError, ConfigError
from unseen.core.randomness import derive, seeded
from unseen.losses import Pairs, Triplets

pytest.importorskip("pytorch_metric_learning")
pytestmark = pytest.mark.filterwarnings("ignore")

KNOWN = {"num_classes": 4, "embedding_size": 5, "seed": 1}
NEEDED: dict[str, dict[str, float]] = {
    "pml.P2SGradLoss": {"descriptors_dim": 5},
    "pml.RankedListLoss": {"margin": 0.4, "Tn": 1},
}
LOSSES = registry.loss.foreign_names()
MINERS = registry.miner.foreign_names()


def made(name, **settings):
    return build(registry.loss, {"name": name, **NEEDED.get(name, {}), **settings}, KNOWN)


@pytest.mark.parametrize("name", LOSSES)
def test_a_foreign_loss_is_the_librarys_value_and_keeps_its_record(name):
    embeddings, labels = small_batch(sizes=(3, 3, 3))  # as one of them asks for
    ours, theirs = (embeddings.float().requires_grad_() for _ in range(2))
    loss = made(name)
    value = loss(ours, labels, key=3)
    with seeded(derive(3, "foreign loss")):
        expected = loss.theirs(theirs, labels)
    value.backward()
    expected.backward()
    assert torch.equal(value, expected.squeeze())
    assert torch.equal(ours.grad, theirs.grad)
    record = record_of(registry.loss, loss)
    again = build(registry.loss, record)
    assert record_of(registry.loss, again) == record
    assert record["name"] == name
    # Equal seeds draw equal parameters.
    assert torch.equal(again(embeddings.float().requires_grad_(), labels, key=3), value)
    assert complete(registry.loss, record) == record
    declared = [parameter for group in loss.own_parameters() for parameter in group["params"]]
    assert [*map(id, declared)] == [*map(id, loss.parameters())]


@pytest.mark.parametrize("name", MINERS)
def test_a_foreign_miner_is_a_pure_function_of_batch_and_key(name):
    embeddings, labels = small_batch()
    miner = build(registry.miner, name)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        state = torch.get_rng_state()
        first = miner(embeddings.float(), labels, key=5)
        assert torch.equal(torch.get_rng_state(), state)
        torch.manual_seed(1)
        for other in (
            miner(Pairs(embeddings.float(), labels), key=5),
            build(registry.miner, name)(embeddings.float(), labels, key=5),
        ):
            assert all(map(torch.equal, other, first))
            assert type(other) is type(first)
    with seeded(5):
        assert all(map(torch.equal, first, miner.theirs(embeddings.float(), labels)))
    record = record_of(registry.miner, miner)
    assert record_of(registry.miner, build(registry.miner, record)) == record


def test_another_key_draws_other_triplets_and_no_key_follows_torchs_seed():
    embeddings, labels = small_batch(sizes=(5, 5, 5))
    miner = build(registry.miner, "pml.DistanceWeightedMiner")
    found = [miner(embeddings.float(), labels, key=key) for key in range(3)]
    assert isinstance(found[0], Triplets)
    assert not all(torch.equal(found[0].negative, other.negative) for other in found[1:])
    with torch.random.fork_rng():
        torch.manual_seed(3)
        first = miner(embeddings.float(), labels)
        torch.manual_seed(3)
        assert all(map(torch.equal, first, miner(embeddings.float(), labels)))


@pytest.mark.parametrize("miner", [*MINERS, "distance", "multi_similarity"])
def test_a_foreign_loss_takes_the_miner_of_either_library(miner):
    embeddings, labels = small_batch()
    loss = made("pml.TripletMarginLoss", miner=miner, margin=2)
    value = loss(embeddings.float(), labels, key=2)
    tuples = loss.miner(embeddings.float(), labels, key=2)
    assert value == loss.theirs(embeddings.float(), labels, tuples)
    assert loss(embeddings.float(), labels, tuples) == value
    assert loss.usage.counts()["num_tuples"] == sum(map(len, tuples[::2])) - (len(tuples) == 3) * len(tuples[2])


def test_a_reference_set_is_passed_on():
    embeddings, labels = small_batch()
    reference, reference_labels = small_batch(1)
    loss = made("pml.ContrastiveLoss")
    value = loss(embeddings, labels, ref_emb=reference, ref_labels=reference_labels)
    assert value == loss.theirs(embeddings, labels, None, reference, reference_labels)


def test_distances_reducers_and_regularizers_are_named():
    record = {
        "distance": "CosineSimilarity",
        "reducer": "MeanReducer",
        "embedding_regularizer": {"name": "LpRegularizer", "p": 1},
    }
    loss = made("pml.ContrastiveLoss", pos_margin=1, neg_margin=0, **record)
    assert type(loss.theirs.distance).__name__ == "CosineSimilarity"
    assert type(loss.theirs.reducer).__name__ == "MultipleReducers"  # of three sub-losses
    assert loss.theirs.embedding_regularizer.p == 1
    found = record_of(registry.loss, loss)
    assert {key: found[key] for key in record} == record
    with pytest.raises(ConfigError, match="no 'CosineSimilarty' in distances; did you mean 'CosineSimilarity'"):
        made("pml.ContrastiveLoss", distance="CosineSimilarty")


def test_settings_are_checked_against_the_constructor():
    refused: list[tuple[dict[str, Any], str]] = [
        ({"margn": 0.1}, "no setting 'margn'; did you mean 'margin'"),
        ({"margin": "wide"}, "margin has the wrong type"),
        ({"swap": 3}, "swap has the wrong type"),
        ({"miner": "pml.MultiSimilarityMinor"}, "did you mean 'pml.MultiSimilarityMiner'"),
        ({"miner": {"name": "pml.MultiSimilarityMiner", "epsilon": "x"}}, "epsilon has the wrong type"),
    ]
    for settings, words in refused:
        with pytest.raises(ConfigError, match=words):
            made("pml.TripletMarginLoss", **settings)
    with pytest.raises(ConfigError, match="needs the setting 'Tn'"):
        build(registry.loss, "pml.RankedListLoss:margin=1", KNOWN)
    with pytest.raises(ConfigError, match="PNPLoss of pytorch-metric-learning refuses its settings"):
        made("pml.PNPLoss", variant="Z")


def test_what_the_library_refuses_in_a_batch_is_a_batch_error():
    embeddings, labels = small_batch()
    with pytest.raises(BatchError, match="InstanceLoss of pytorch-metric-learning: .*indices_tuple"):
        made("pml.InstanceLoss", miner="random")(embeddings, labels, key=1)
    with pytest.raises(BatchError, match="NaN or infinity"):
        made("pml.InstanceLoss")(embeddings * torch.nan, labels)
    with pytest.raises(ConfigError, match="must return a scalar"):
        made("pml.TripletMarginLoss", reducer="DoNothingReducer")(embeddings, labels)


def test_half_precision_inputs_are_computed_in_float32():
    embeddings, labels = small_batch()
    with torch.autocast("cpu", torch.bfloat16):
        value = made("pml.ProxyAnchorLoss")(embeddings.bfloat16(), labels)
    assert value.dtype == torch.float32


def test_proxies_follow_the_seed_of_the_run():
    with_parameters = [name for name in LOSSES if made(name).own_parameters()]
    assert len(with_parameters) >= 10
    for name in with_parameters:
        first, again, another = (next(made(name, seed=seed).parameters()) for seed in (1, 1, 2))
        assert torch.equal(first, again)
        assert not torch.equal(first, another)
