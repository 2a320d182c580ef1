"""Our losses with pytorch-metric-learning's miners, its losses with ours, and both libraries' values side by side."""

import inspect
import json
import warnings

import pytest
import torch

import unseen
from tests.helpers import commands
from tests.helpers.small_runs import Stop, settings_for, stop_at, without_times, write_features
from tests.losses.loops import small_batch
from unseen.core import registry
from unseen.core.config import build, read_yaml
from unseen.core.errors import BatchError
from unseen.core.randomness import seeded
from unseen.runs import run

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    theirs = pytest.importorskip("pytorch_metric_learning")
    from pytorch_metric_learning import losses
    from pytorch_metric_learning.distances import CosineSimilarity, LpDistance
    from pytorch_metric_learning.reducers import MeanReducer
    from pytorch_metric_learning.trainers import MetricLossOnly

# What their code warns of is theirs to mend.
pytestmark = pytest.mark.filterwarnings("ignore:::pytorch_metric_learning", "ignore:Converting a tensor")

KNOWN = {"num_classes": 6, "embedding_size": 5}
NEEDED = {"robust": {"pair_loss": "binomial_pair", "uncertainty": "kl"}, "cross_batch_memory": {"loss": "contrastive"}}


def our_losses():
    """Every registered loss of ours."""
    return [build(registry.loss, {"name": name, **NEEDED.get(name, {})}, KNOWN) for name in registry.loss.names()]


def takes(loss, argument):
    parameter = inspect.signature(loss.forward).parameters.get(argument)
    return parameter is not None and parameter.annotation is not None


OUR_LOSSES = our_losses()
OUR_TUPLE_LOSSES = [loss for loss in OUR_LOSSES if takes(loss, "indices_tuple")]
OUR_REFERENCE_LOSSES = [loss for loss in OUR_LOSSES if takes(loss, "ref_emb")]
OUR_MINED_LOSSES = [loss for loss in OUR_LOSSES if "miner" in inspect.signature(type(loss)).parameters]
OUR_MINERS = [build(registry.miner, name) for name in registry.miner.names()]
THEIR_MINERS = [build(registry.miner, name).theirs for name in registry.miner.foreign_names()]
THEIR_TUPLE_LOSSES = [
    losses.MarginLoss(),
    losses.TripletMarginLoss(margin=2),
    losses.ContrastiveLoss(neg_margin=2),
    losses.MultiSimilarityLoss(),
    losses.CircleLoss(),
    losses.NTXentLoss(),
    losses.AngularLoss(),
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
    assert embeddings.grad.isfinite().all()
    assert loss.usage.counts()["num_tuples"] > 0


@pytest.mark.parametrize("miner", THEIR_MINERS, ids=name_of)
@pytest.mark.parametrize("loss", OUR_MINED_LOSSES, ids=name_of)
def test_our_losses_have_their_miners_as_their_own(loss, miner):
    embeddings, labels = small_batch()
    with_miner = build(registry.loss, registry.loss.name_of(loss), KNOWN)
    with_miner.miner = miner
    with torch.random.fork_rng():
        torch.manual_seed(1)
        value = with_miner(embeddings.float(), labels, key=4)
        torch.manual_seed(2)
        assert torch.equal(with_miner(embeddings.float(), labels, key=4), value)
    with seeded(4):
        tuples = miner(embeddings.float(), labels)
    assert torch.equal(loss(embeddings.float(), labels, tuples, key=4), value)


@pytest.mark.parametrize("miner", OUR_MINERS, ids=name_of)
@pytest.mark.parametrize("loss", THEIR_TUPLE_LOSSES, ids=name_of)
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
    for loss in OUR_REFERENCE_LOSSES:
        by_name = loss(embeddings, labels, ref_emb=reference[0], ref_labels=reference[1], key=1)
        assert torch.equal(loss(embeddings, labels, None, *reference, key=1), by_name)


def test_the_cosine_of_their_distance_is_our_similarity():
    embeddings, labels = small_batch()
    pairs = unseen.losses.Pairs(embeddings, labels)
    torch.testing.assert_close(pairs.similarity, CosineSimilarity()(embeddings))


@pytest.mark.parametrize("loss", OUR_REFERENCE_LOSSES, ids=name_of)
def test_their_cross_batch_memory_works_around_the_losses_whose_names_it_knows(loss):
    """It asks for a class name of its own; under such a name every loss of ours with a reference set works."""
    embeddings, labels = small_batch(sizes=(3, 3, 4))
    with pytest.raises(Exception, match="CrossBatchMemory not supported for"):
        losses.CrossBatchMemory(loss, embedding_size=5)
    renamed = build(
        registry.loss, {"name": registry.loss.name_of(loss), **NEEDED.get(registry.loss.name_of(loss), {})}, KNOWN
    )
    renamed.__class__ = type("ContrastiveLoss", (type(loss),), {})
    memory = losses.CrossBatchMemory(renamed, embedding_size=5, memory_size=30)
    for _ in range(3):
        value = memory(embeddings.float().requires_grad_(), labels)
        value.backward()
        assert value.isfinite()


class Pictures(torch.utils.data.Dataset):
    """Clustered points with labels."""

    def __init__(self):
        self.points, self.labels = small_batch(2, sizes=(8, 8, 8, 8), width=7)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.points[index].float(), int(self.labels[index])


@pytest.mark.parametrize("loss", OUR_LOSSES, ids=name_of)
def test_our_losses_and_miners_train_in_their_trainer(loss):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        trunk = torch.nn.Linear(7, 5)
        before = trunk.weight.detach().clone()
        name = registry.loss.name_of(loss)
        fresh = build(registry.loss, {"name": name, **NEEDED.get(name, {})}, KNOWN)
        optimizers = {"trunk_optimizer": torch.optim.Adam(trunk.parameters(), lr=0.05)}
        if list(fresh.parameters()):
            optimizers["metric_loss_optimizer"] = torch.optim.Adam(fresh.parameters(), lr=0.05)
        # The losses with a vector for each class are not defined on tuples.
        mining = {"tuple_miner": unseen.miners.MultiSimilarity(epsilon=2.0)} if takes(fresh, "indices_tuple") else {}
        trainer = MetricLossOnly(
            models={"trunk": trunk},
            optimizers=optimizers,
            batch_size=16,
            loss_funcs={"metric_loss": fresh},
            mining_funcs=mining,
            dataset=Pictures(),
            data_device="cpu",
            dataloader_num_workers=0,
            iterations_per_epoch=3,
        )
        trainer.train(num_epochs=1)
    assert trunk.weight.isfinite().all()
    assert not torch.equal(trunk.weight, before)


RUNS = {
    "their loss, their miner": ("pml.TripletMarginLoss:margin=0.1", "pml.MultiSimilarityMiner:epsilon=0.1"),
    "their loss, their miner that draws": ("pml.MarginLoss:learn_beta=true", "pml.DistanceWeightedMiner"),
    "their loss, our miner": ("pml.TripletMarginLoss:distance=(CosineSimilarity)", "distance"),
    "our loss, their miner": ("margin:beta_mode=per_class", "pml.DistanceWeightedMiner"),
    "their proxies": ("pml.ProxyAnchorLoss:margin=0.2", None),
    "our memory around their loss": ("cross_batch_memory:loss=(pml.ContrastiveLoss),size=30", None),
}


@pytest.mark.parametrize("case", RUNS)
def test_a_run_with_theirs_learns_follows_its_seed_and_resumes_to_the_bit(tmp_path, case):
    loss, miner = RUNS[case]
    settings = settings_for(write_features(tmp_path / "features.npz"), loss=loss, epochs=6)
    settings |= {} if miner is None else {"miner": miner}
    # A random head has much to learn, and its last weights tell of every step.
    settings |= {"head": "random", "choose_by": "last"}
    whole = run(settings, tmp_path / "whole")
    with pytest.raises(Stop):
        run(settings, tmp_path / "parts", save_seconds=0, progress=stop_at(7))
    with torch.random.fork_rng():
        torch.manual_seed(9)
        parts = run(settings, tmp_path / "parts")
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "parts")]
    assert weights[0] == weights[1]
    assert without_times(parts) == without_times(whole)
    history = [row["loss"] for row in whole["history"] if row["loss"] is not None]
    assert history[-1] < history[0]


def test_the_command_and_a_file_train_with_theirs(tmp_path):
    write_features(tmp_path / "features.npz")
    common = [
        "--data",
        "features=features.npz",
        "--epochs",
        "2",
        "--sampler",
        "samples_per_class:batch_size=10,per_class=2",
    ]
    theirs = ["--loss", "pml.TripletMarginLoss:margin=0.1", "--miner", "pml.MultiSimilarityMiner:epsilon=0.2"]
    commands.unseen("train", *common, *theirs, "--out", "run", cwd=tmp_path)
    recipe = json.loads((tmp_path / "run" / "run.json").read_text())["recipe"]
    assert recipe["loss"]["name"] == "pml.TripletMarginLoss"
    assert recipe["loss"]["margin"] == 0.1
    assert recipe["loss"]["miner"] == {"name": "pml.MultiSimilarityMiner", "epsilon": 0.2, "distance": None}

    file = tmp_path / "run.yaml"
    file.write_text(
        f"data: {{name: features, path: {tmp_path}/features.npz}}\n"
        "sampler: samples_per_class:batch_size=10,per_class=2\nepochs: 2\n"
        "loss: {name: pml.TripletMarginLoss, margin: 0.1}\n"
        "miner: {name: pml.MultiSimilarityMiner, epsilon: 0.2}\n"
    )
    result = run(read_yaml(file), tmp_path / "again")
    assert result["protocol"]["loss"] == recipe["loss"]
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("run", "again")]
    assert weights[0] == weights[1]


def test_a_miner_with_a_loss_of_theirs_that_takes_none_stops_the_run_in_one_sentence(tmp_path):
    settings = settings_for(write_features(tmp_path / "features.npz"), loss="pml.InstanceLoss", miner="random")
    with pytest.raises(BatchError, match="InstanceLoss of pytorch-metric-learning: .*indices_tuple"):
        run(settings, tmp_path / "run")


def test_a_proxy_loss_refuses_tuples_in_one_sentence():
    loss = unseen.losses.ProxyAnchor(num_classes=4, embedding_size=6)
    embeddings, labels = torch.randn(8, 6), torch.arange(8) % 4
    assert loss(embeddings, labels, None).isfinite()
    with pytest.raises(unseen.core.errors.BatchError, match="ProxyAnchor compares with proxies"):
        loss(embeddings, labels, unseen.miners.Hard()(embeddings, labels))
