import inspect
from collections import deque
from typing import cast

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from tests.helpers.small_runs import Stop, settings_for, stop_at, write_features
from tests.losses.loops import distance, hinge, small_batch
from unseen.core import registry
from unseen.core.config import build, record_of
from unseen.core.errors import BatchError, ConfigError
from unseen.core.randomness import derive, torch_generator
from unseen.losses import (
    Contrastive,
    ContrastivePair,
    CrossBatchMemory,
    Margin,
    MultiSimilarity,
    Pairs,
    ProxyAnchor,
    SupCon,
    Triplet,
)
from unseen.miners import DistanceWeighted, Hard
from unseen.robust import KL, Robust
from unseen.runs import run

WIDTH = 5
INNER = [
    name
    for name in registry.loss.names()
    if name != "robust" and "ref_emb" in inspect.signature(registry.loss[name].forward).parameters
]


def counts_of(memory):
    assert memory.usage is not None
    return memory.usage.counts()


def batches(count, sizes=(7, 3, 12), classes=4):
    """Batches of unequal size with few classes, from one seed."""
    generator = torch_generator(5)
    for number in range(count):
        size = sizes[number % len(sizes)]
        yield (
            torch.randn(size, WIDTH, generator=generator, dtype=torch.float64),
            torch.randint(classes, (size,), generator=generator),
        )


def filled(loss, **settings):
    """A memory of that loss in float64 after two batches."""
    memory = CrossBatchMemory(loss, embedding_size=WIDTH, **settings).double()
    for number, (embeddings, labels) in enumerate(batches(2, sizes=(8, 9))):
        memory(embeddings, labels, key=number)
    return memory


@pytest.mark.parametrize("size", [1, 5, 10, 40])
def test_the_queue_holds_the_newest_samples_in_their_order(size):
    memory = CrossBatchMemory(Contrastive(), embedding_size=WIDTH, size=size).double()
    expected: deque[tuple[list[float], int]] = deque(maxlen=size)
    for embeddings, labels in batches(23):
        memory(embeddings, labels)
        expected.extend(zip(embeddings.tolist(), labels.tolist(), strict=True))
        rows, row_labels = memory.memory()
        assert rows.tolist() == [row for row, _ in expected]
        assert row_labels.tolist() == [label for _, label in expected]
    assert memory.queue.shape == (size, WIDTH)


@pytest.mark.parametrize("name", INNER)
def test_the_value_is_that_of_the_batch_and_of_the_batch_against_the_memory(name):
    memory = filled(build(registry.loss, name, {"num_classes": 4}), size=15, memory_weight=0.7)
    embeddings, labels = next(batches(1))
    rows, row_labels = memory.memory()
    plain = build(registry.loss, name, {"num_classes": 4}).double()

    def explicit(embeddings):
        value = plain(embeddings, labels, key=3)
        return value + 0.7 * plain(embeddings, labels, None, rows, row_labels, key=derive(3, "memory"))

    found, expected = embeddings.clone().requires_grad_(), embeddings.clone().requires_grad_()
    value, reference = memory(found, labels, key=3), explicit(expected)
    # Backward comes after the queue has advanced.
    value.backward()
    reference.backward()
    torch.testing.assert_close(value, reference, rtol=0, atol=0)
    torch.testing.assert_close(found.grad, expected.grad, rtol=0, atol=0)
    assert not memory.queue.requires_grad
    assert not memory.memory()[0].requires_grad


def test_a_contrastive_memory_equals_loops_over_the_pairs():
    memory = filled(Contrastive(negative_margin=1.2))
    embeddings, labels = next(batches(1))
    rows, row_labels = memory.memory()
    total = 0.0
    for columns, column_labels, is_self in ((embeddings, labels, True), (rows, row_labels, False)):
        pulls, pushes = [], []
        for i, anchor in enumerate(embeddings.tolist()):
            for j, other in enumerate(columns.tolist()):
                if is_self and i == j:
                    continue
                if labels[i] == column_labels[j]:
                    pulls.append(distance(anchor, other))
                else:
                    pushes.append(hinge(1.2 - distance(anchor, other)))
        total += sum(pulls) / len(pulls) + sum(pushes) / len(pushes)
    # 1e-8: a sample and its copy are compared by another route, and a root of 1e-8 magnifies rounding.
    assert memory(embeddings, labels).item() == pytest.approx(total, abs=1e-8)


def test_no_sample_meets_its_own_copy():
    embeddings, _ = next(batches(1))
    labels = torch.arange(len(embeddings))
    memory = CrossBatchMemory(Contrastive(), embedding_size=WIDTH)
    memory(embeddings, labels)
    assert counts_of(memory)["num_tuples"] == len(labels) * (len(labels) - 1)  # all negative: nobody has a positive
    assert counts_of(memory)["without_positive"] == len(labels)
    memory(embeddings, labels + 100)
    assert counts_of(memory)["without_positive"] == len(labels)
    memory(embeddings, labels)  # the same images again, two steps later, are positives
    assert counts_of(memory)["without_positive"] == 0


def test_the_first_batch_and_the_steps_before_the_start_see_the_plain_loss():
    memory = CrossBatchMemory(MultiSimilarity(), embedding_size=WIDTH, start_step=4)
    for step, (embeddings, labels) in enumerate(batches(6)):
        value = memory(embeddings, labels)
        assert (value == MultiSimilarity()(embeddings, labels)) == (step < 4)
    assert len(memory.memory()[0]) == 7 + 3 + 12 + 7 + 3 + 12
    immediate = CrossBatchMemory(MultiSimilarity(), embedding_size=WIDTH)
    assert immediate(embeddings, labels) == MultiSimilarity()(embeddings, labels)


def test_evaluation_reads_the_memory_and_leaves_it_as_it_is():
    memory = filled(Triplet())
    before = {name: each.clone() for name, each in memory.state_dict().items()}
    embeddings, labels = next(batches(1))
    first = memory.eval()(embeddings, labels)
    assert memory(embeddings, labels) == first != Triplet()(embeddings, labels)
    assert all(torch.equal(each, before[name]) for name, each in memory.state_dict().items())


def test_tuples_choose_among_the_pairs_of_the_batch_only():
    memory = filled(Contrastive()).eval()
    embeddings, labels = next(batches(1))
    nothing = (torch.tensor([], dtype=torch.int64),) * 3
    against_memory = Contrastive()(embeddings, labels, None, *memory.memory())
    torch.testing.assert_close(memory(embeddings, labels, nothing), against_memory, rtol=0, atol=0)


@pytest.mark.parametrize(
    "loss",
    [Triplet(miner=DistanceWeighted()), Margin(miner=Hard()), Robust(ContrastivePair(), KL()), SupCon()],
    ids=lambda loss: type(loss).__name__,
)
def test_training_on_odd_batches_stays_finite_and_follows_the_key(loss):
    values = []
    for _ in range(2):
        memory = CrossBatchMemory(loss, embedding_size=WIDTH, size=20)
        found = []
        for number, (embeddings, labels) in enumerate(batches(30, sizes=(1, 2, 30, 5), classes=3)):
            embeddings = embeddings.float().requires_grad_()
            value = memory(embeddings, labels, key=number)
            value.backward()
            assert embeddings.grad.isfinite().all()
            counts = counts_of(memory)
            assert counts["anchors"] == len(labels)
            assert counts["num_active"] <= counts["num_tuples"]
            found.append(value.item())
        values.append(found)
    assert values[0] == values[1]
    assert any(values[0])


def test_the_terms_draw_from_keys_of_their_own():
    class Noting(nn.Module):
        def __init__(self):
            super().__init__()
            self.keys = []

        def forward(self, embeddings, labels, indices_tuple=None, ref_emb=None, ref_labels=None, *, key=None):
            self.keys.append(key)
            return embeddings.sum()

    memory = filled(Noting())
    assert memory.loss.keys == [0, 1, derive(1, "memory")]


def test_a_state_dict_carries_the_queue():
    memory, again = (
        filled(Margin(beta_mode="global")),
        CrossBatchMemory(Margin(beta_mode="global"), embedding_size=WIDTH),
    )
    again.double().load_state_dict(memory.state_dict())
    for number, (embeddings, labels) in enumerate(batches(4)):
        assert torch.equal(again(embeddings, labels, key=number), memory(embeddings, labels, key=number))
    for each, other in zip(again.memory(), memory.memory(), strict=True):
        assert torch.equal(each, other)


def test_the_queue_stays_in_float32_when_the_embeddings_or_the_module_are_in_half_precision():
    embeddings, labels = next(batches(1))
    memory = CrossBatchMemory(Contrastive(), embedding_size=WIDTH)
    with torch.autocast("cpu", torch.bfloat16):
        value = memory(embeddings.bfloat16(), labels)
    assert value.dtype == memory.queue.dtype == torch.float32
    assert torch.equal(memory.memory()[0], embeddings.bfloat16().float())
    memory.half()
    memory(embeddings.float() * 1e30, labels)
    assert memory.queue.dtype == torch.float32
    assert memory(embeddings, labels).isfinite()
    assert filled(Contrastive()).queue.dtype == torch.float64


def test_what_is_refused_says_why_and_does_not_enter_the_queue():
    memory = filled(Contrastive())
    embeddings, labels = small_batch()
    with pytest.raises(BatchError, match="the 5 columns of the memory"):
        memory(embeddings[:, :3], labels)
    with pytest.raises(BatchError, match="already have a reference set"):
        memory(Pairs(embeddings, labels, embeddings.clone(), labels.clone()))
    with pytest.raises(BatchError, match="NaN or infinity"):
        memory(embeddings * torch.nan, labels)
    with pytest.raises(BatchError, match="3 tensors"):
        memory(embeddings, labels, (labels,))
    assert len(memory.memory()[0]) == 17
    for unfit in (ProxyAnchor(num_classes=3, embedding_size=WIDTH), "contrastive"):
        with pytest.raises(ConfigError, match="takes a reference set"):
            CrossBatchMemory(cast(nn.Module, unfit), embedding_size=WIDTH)


def test_a_record_builds_it_and_its_losss_own_parameters_are_passed_on():
    known = {"num_classes": 6, "embedding_size": WIDTH}
    made = build(registry.loss, "cross_batch_memory:loss=(margin:beta_mode=per_class,miner=(hard)),size=9", known)
    assert made.size == 9
    assert made.loss.boundary.shape == (6,)
    assert made.own_parameters() == made.loss.own_parameters()
    assert record_of(registry.loss, made)["loss"]["miner"] == {"name": "hard"}


@pytest.mark.parametrize("autocast", [False, True])
def test_a_run_that_was_stopped_has_the_weights_and_the_queue_of_one_that_was_not(tmp_path, autocast):
    features = write_features(tmp_path / "features.npz")
    loss = "cross_batch_memory:loss=(margin:beta_mode=global,miner=distance),size=25,start_step=2"
    settings = settings_for(features, loss=loss, autocast=autocast)
    for folder, steps in (("whole", [11]), ("parts", [4, 5, 11])):
        for step in steps:
            with pytest.raises(Stop):
                run(settings, tmp_path / folder, save_seconds=0, progress=stop_at(step))
    whole, parts = (
        load_file(tmp_path / folder / "checkpoints" / "checkpoint-11" / "tensors.safetensors")
        for folder in ("whole", "parts")
    )
    assert whole["objective/loss.enqueued"] == 110
    assert whole["objective/loss.queue"].shape == (25, 6)
    assert whole.keys() == parts.keys()
    for name, tensor in whole.items():
        assert torch.equal(tensor, parts[name]), name
