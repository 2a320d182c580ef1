"""What every registered miner must do; a new miner is tested here by being registered."""

import json
import math

import pytest
import torch

import unseen.miners
from tests.contracts.degenerate_batches import DEGENERATE, broken_batches, ordinary_batch, random_batches
from tests.contracts.loss_cases import is_numeric, settings_of
from unseen.core import registry
from unseen.core.config import build, record_of
from unseen.core.errors import BatchError, ConfigError
from unseen.losses import PairIndices, Pairs, Triplets

NAMES = registry.miner.names()
SWITCHING = ("rho_distance",)
"""Miners that by definition also give (a, a, p): the anchor as its own positive, pushed from a sample of its class."""


def assert_valid(name, found, labels):
    """Typed, on the device of the labels, in range, of the right classes, and never a sample with itself."""
    assert isinstance(found, (Triplets, PairIndices))
    for part in found:
        assert part.dtype == torch.int64
        assert part.ndim == 1
        assert not part.requires_grad
        assert ((part >= 0) & (part < len(labels))).all()
    if name in SWITCHING:
        assert isinstance(found, Triplets)
        switched = found.anchor == found.positive
        assert (labels[found.anchor] == labels[found.negative])[switched].all()
        assert (found.anchor != found.negative).all()
        found = Triplets(*(part[~switched] for part in found))
    if isinstance(found, Triplets):
        found = PairIndices(found.anchor, found.positive, found.anchor, found.negative)
    assert (labels[found.anchor_positive] == labels[found.positive]).all()
    assert (found.anchor_positive != found.positive).all()
    assert (labels[found.anchor_negative] != labels[found.negative]).all()


def complete_anchors(labels):
    same = labels.unsqueeze(1) == labels
    return ((same.sum(1) > 1) & ~same.all(1)).nonzero().squeeze(1)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_degenerate_batches_give_valid_tuples_and_nothing_when_there_is_nothing(name, dtype):
    miner = build(registry.miner, name)
    for embeddings, labels in DEGENERATE.values():
        found = miner(embeddings.to(dtype), labels, key=1)
        assert_valid(name, found, labels)
        if len(complete_anchors(labels)) == 0:
            assert all(len(part) == 0 for part in found)
        elif isinstance(found, Triplets):
            assert torch.equal(found.anchor.unique(), complete_anchors(labels))


@pytest.mark.parametrize("name", NAMES)
def test_random_batches_give_valid_tuples_that_cover_every_complete_anchor(name):
    miner = build(registry.miner, name)
    for number, (embeddings, labels) in enumerate(random_batches(300)):
        found = miner(embeddings.float(), labels, key=number)
        assert_valid(name, found, labels)
        if isinstance(found, Triplets):
            assert torch.equal(found.anchor, complete_anchors(labels))


@pytest.mark.parametrize("name", NAMES)
def test_wide_embeddings_lose_no_anchor(name):
    # pytorch-metric-learning covers 75 of 640 anchors here, as it normalises weights over the whole batch.
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(640) // 5
    embeddings = torch.randn(128, 1024, generator=generator)[labels] + torch.randn(640, 1024, generator=generator)
    found = build(registry.miner, name)(embeddings, labels, key=1)
    assert_valid(name, found, labels)
    if isinstance(found, Triplets):
        assert torch.equal(found.anchor, torch.arange(640))


@pytest.mark.parametrize("name", NAMES)
def test_a_miner_is_a_pure_function_of_batch_and_key(name):
    embeddings, labels = ordinary_batch()
    miner = build(registry.miner, name)
    embeddings.requires_grad_()
    pairs = Pairs(embeddings, labels)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        state = torch.get_rng_state()
        first = miner(embeddings, labels, key=5)
        assert torch.equal(torch.get_rng_state(), state)
        torch.manual_seed(1)
        for other in (miner(embeddings, labels, key=5), miner(pairs, key=5), build(registry.miner, name)(pairs, key=5)):
            assert all(map(torch.equal, other, first))
    assert pairs.similarity.requires_grad


@pytest.mark.parametrize("name", NAMES)
def test_a_miner_without_a_key_follows_torchs_seed(name):
    embeddings, labels = ordinary_batch()
    miner = build(registry.miner, name)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        first = miner(embeddings, labels)
        torch.manual_seed(3)
        assert all(map(torch.equal, miner(embeddings, labels), first))


@pytest.mark.parametrize("name", NAMES)
def test_the_scale_of_embeddings_and_the_names_of_classes_do_not_matter(name):
    embeddings, labels = ordinary_batch()
    miner = build(registry.miner, name)
    first = miner(embeddings, labels, key=5)
    # A power of two, so that not even rounding differs.
    assert all(map(torch.equal, miner(embeddings * 2.0**20, 10**12 - 3 * labels, key=5), first))


@pytest.mark.parametrize("name", NAMES)
def test_a_reference_set_is_mined_by_its_own_rows(name):
    embeddings, labels = ordinary_batch()
    pairs = Pairs(embeddings[:4], labels[:4], embeddings, labels)
    found = build(registry.miner, name)(pairs, key=1)
    anchors, negatives = (found.anchor if isinstance(found, Triplets) else found.anchor_negative), found.negative
    assert (anchors < 4).all()
    assert (labels[anchors] != labels[negatives]).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("problem", broken_batches())
def test_batches_of_the_wrong_shape_are_refused_in_one_sentence(name, problem):
    embeddings, labels, words = broken_batches()[problem]
    with pytest.raises(BatchError, match=words):
        build(registry.miner, name)(embeddings, labels)


@pytest.mark.parametrize("name", NAMES)
def test_configuration_survives_a_round_trip(name):
    record = json.loads(json.dumps(record_of(registry.miner, build(registry.miner, name))))
    assert record_of(registry.miner, build(registry.miner, record)) == record


@pytest.mark.parametrize("name", NAMES)
def test_a_miner_documents_formula_shape_empty_case_and_reference(name):
    words = registry.miner[name].__doc__
    for part in (".. math::", "Shape:", "Empty:", "Reference:", "Differs:"):
        assert part in words, part


def test_every_registered_miner_is_exported_under_its_name():
    for name in NAMES:
        component = registry.miner[name]
        assert getattr(unseen.miners, component.__name__) is component


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1e9, "1", True, [1.0]], ids=str)
def test_bad_values_of_every_numeric_setting_are_refused(name, bad):
    component = registry.miner[name]
    for setting in [setting for setting, annotation in settings_of(component).items() if is_numeric(annotation)]:
        with pytest.raises(ConfigError, match=setting):
            component(**{setting: bad})
