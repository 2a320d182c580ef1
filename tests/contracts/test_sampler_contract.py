"""What every registered sampler must do; a new sampler is tested here by being registered, with one case below."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.contracts.cases import case_of
from unseen.core import registry
from unseen.core.config import build, record_of
from unseen.core.errors import ConfigError, DataError, UnseenError
from unseen.data import Catalogue, CatalogueDataset, FeatureArray, ItemKey, make_loader
from unseen.samplers import Batches, BatchPosition, EmbeddingAwareBatches

LABELS = np.repeat(np.arange(10), [7, 12, 30, 5, 9, 8, 40, 6, 11, 10])
BATCH, PER_CLASS = 12, 3
EMBEDDINGS = np.random.default_rng(0).normal(size=(len(LABELS), 4)).astype(np.float32)


def is_distinct(batch: np.ndarray) -> bool:
    return len(np.unique(batch)) == len(batch)


def has_per_class_images_of_each_class(batch: np.ndarray) -> bool:
    """Exactly b/n classes with n distinct images each."""
    classes, counts = np.unique(LABELS[batch], return_counts=True)
    return len(classes) == BATCH // PER_CLASS and bool((counts == PER_CLASS).all()) and is_distinct(batch)


def has_runs_of_one_class(batch: np.ndarray) -> bool:
    """b/n runs of n images, each of one class."""
    classes = LABELS[batch].reshape(-1, PER_CLASS)
    return bool((classes == classes[:, :1]).all())


def has_distinct_runs_of_one_class(batch: np.ndarray) -> bool:
    """Such runs, without repeating an image while its class has others."""
    counts = {label: np.sum(LABELS[batch] == label) for label in np.unique(LABELS[batch])}
    enough = all(
        len(np.unique(batch[LABELS[batch] == label])) == min(count, np.sum(label == LABELS))
        for label, count in counts.items()
    )
    return enough and has_runs_of_one_class(batch)


def has_a_positive_pair(batch: np.ndarray) -> bool:
    """Two different images of one class."""
    return any(len(np.unique(batch[LABELS[batch] == label])) > 1 for label in np.unique(LABELS[batch]))


def has_few_classes(batch: np.ndarray) -> bool:
    """At most n images of each class; a class may be divided by the end of a batch."""
    return int(np.bincount(LABELS[batch]).max()) <= PER_CLASS and is_distinct(batch)


class Case(NamedTuple):
    """Settings, the stated composition of a batch, and the epochs after which every class and image was drawn."""

    settings: dict[str, Any]
    composition: Callable[[np.ndarray], bool]
    epochs_for_classes: int
    epochs_for_images: int


SIZES = {"batch_size": BATCH, "per_class": PER_CLASS}
BIG = {**SIZES, "big_batch_size": 60}
CASES = {
    # The largest class has 40 images: 14 visits, one per round of 3 batches, and an epoch has 11 batches.
    "samples_per_class": Case(SIZES, has_per_class_images_of_each_class, 1, 4),
    "spc_random": Case({"batch_size": BATCH}, has_a_positive_pair, 2, 40),
    "ddm": Case(BIG, has_per_class_images_of_each_class, 2, 50),
    "frd": Case(BIG, has_per_class_images_of_each_class, 2, 50),
    "gc": Case(BIG, has_distinct_runs_of_one_class, 6, 12),
}
"""One case per registered sampler; where draws are random, the epochs are twice what seeds 0 to 4 need."""
VARIANTS = {
    **CASES,
    "samples_per_class:draw=reference": Case({**SIZES, "draw": "reference"}, has_runs_of_one_class, 4, 42),
    "samples_per_class:draw=stream": Case({**SIZES, "draw": "stream"}, has_few_classes, 8, 172),
}
NAMES = sorted({*registry.sampler.names(), *VARIANTS})


def case(variant: str) -> Case:
    return case_of(VARIANTS, variant, "tests/contracts/test_sampler_contract.py")


def sampler_of(variant: str) -> Any:
    return build(registry.sampler, {"name": variant.split(":")[0], **case(variant).settings})


def batches_of(variant: str, *, labels: np.ndarray = LABELS, seed: int = 0) -> Batches:
    """The batches of a run; the store of a sampler that follows embeddings is filled."""
    batches: Batches = sampler_of(variant).batches(labels, seed)
    if isinstance(batches, EmbeddingAwareBatches):
        batches.start(np.resize(EMBEDDINGS, (len(labels), 4)))
    return batches


def positions(batches: Batches, count: int, first: int = 0) -> list[BatchPosition]:
    return [BatchPosition(*divmod(number, batches.batches_per_epoch)) for number in range(first, first + count)]


@pytest.mark.parametrize("name", NAMES)
def test_a_thousand_batches_have_the_stated_composition(name):
    batches = batches_of(name, seed=1)
    for position in positions(batches, 1000):
        batch = batches.batch(position)
        assert batch.shape == (BATCH,)
        assert batch.dtype == np.int64
        assert batch.min() >= 0
        assert batch.max() < len(LABELS)
        assert case(name).composition(batch), position


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(3))
def test_every_class_and_every_image_is_drawn_within_the_stated_epochs(name, seed):
    batches = batches_of(name, seed=seed)
    drawn: dict[int, np.ndarray] = {}
    for epochs in (case(name).epochs_for_classes, case(name).epochs_for_images):
        count = epochs * batches.batches_per_epoch
        drawn[epochs] = np.concatenate([batches.batch(position) for position in positions(batches, count)])
    assert set(LABELS[drawn[case(name).epochs_for_classes]]) == set(LABELS)
    assert set(drawn[case(name).epochs_for_images]) == set(range(len(LABELS)))


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_is_a_pure_function_of_seed_epoch_and_number(name):
    batches = batches_of(name)
    order = positions(batches, 3 * batches.batches_per_epoch)
    forward = {position: batches.batch(position).copy() for position in order}
    again = batches_of(name)
    for index in np.random.default_rng(0).permutation(len(order)):
        assert np.array_equal(again.batch(order[index]), forward[order[index]])
    other = batches_of(name, seed=1)
    assert not all(np.array_equal(other.batch(position), batch) for position, batch in forward.items())
    assert len({batch.tobytes() for batch in forward.values()}) == len(forward)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("workers", [0, 1, 2])
def test_batches_are_the_same_for_any_number_of_workers(name, workers):
    catalogue = Catalogue(
        name="features",
        reader=FeatureArray(EMBEDDINGS),
        labels=LABELS.astype(np.int64),
        class_names=tuple(map(str, range(10))),
        ids=tuple(map(str, range(len(LABELS)))),
    )
    batches = batches_of(name)
    order = positions(batches, batches.batches_per_epoch)
    expected = [batches.batch(position) for position in order]
    again = batches_of(name)
    keys = ([ItemKey(int(index), None) for index in again.batch(position)] for position in order)
    loaded = list(make_loader(CatalogueDataset(catalogue), keys, workers=workers))
    assert [batch.indices.tolist() for batch in loaded] == [batch.tolist() for batch in expected]
    assert all(np.array_equal(batch.inputs.numpy(), EMBEDDINGS[batch.indices]) for batch in loaded)


@pytest.mark.parametrize("name", NAMES)
def test_a_resumed_run_goes_on_with_the_same_batches(name):
    batches = batches_of(name)
    per_epoch = batches.batches_per_epoch
    before, after = positions(batches, per_epoch + 2), positions(batches, 2 * per_epoch, per_epoch + 2)
    for position in before:
        batch = batches.batch(position)
        if isinstance(batches, EmbeddingAwareBatches):
            batches.observe(batch, -EMBEDDINGS[batch])
    resumed: Batches = sampler_of(name).batches(LABELS, 0)
    if isinstance(batches, EmbeddingAwareBatches):
        assert isinstance(resumed, EmbeddingAwareBatches)
        resumed.restore({key: value.copy() for key, value in batches.state().items()})
    for position in after:
        assert np.array_equal(resumed.batch(position), batches.batch(position))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sizes", [[], [4], [1, 1], [2, 3]], ids=str)
def test_few_classes_fill_the_batch_or_are_refused_in_one_sentence(name, sizes):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    try:
        batches = batches_of(name, labels=labels)
    except UnseenError as problem:
        assert "\n" not in problem.message
        return
    assert len(labels) > 0
    for position in positions(batches, 20):
        batch = batches.batch(position)
        assert batch.shape == (BATCH,)
        assert set(labels[batch]) <= set(labels)
        assert len(np.unique(batch)) > 1 or len(labels) == 1 or name.endswith(":draw=reference")


@pytest.mark.parametrize("name", NAMES)
def test_no_labels_are_refused_with_a_hint(name):
    with pytest.raises(
        DataError, match=r"^there are no images to draw batches from\. The split needs training classes"
    ):
        sampler_of(name).batches(np.array([], dtype=np.int64), seed=0)


@pytest.mark.parametrize("name", NAMES)
def test_a_sampler_survives_its_record_as_json(name):
    sampler = sampler_of(name)
    record = json.loads(json.dumps(record_of(registry.sampler, sampler)))
    again = build(registry.sampler, record)
    assert record_of(registry.sampler, again) == record
    assert {**record, **case(name).settings} == record


@pytest.mark.parametrize("name", registry.sampler.names())
def test_an_unknown_setting_of_any_sampler_is_refused(name):
    with pytest.raises(ConfigError, match="batchsize.*did you mean 'batch_size'"):
        build(registry.sampler, {"name": name, "batchsize": 4})


@pytest.mark.parametrize("name", registry.sampler.names())
@pytest.mark.parametrize("size", [0, -4, 2.5, "many"])
def test_a_batch_size_that_is_none_is_refused(name, size):
    with pytest.raises(ConfigError, match="batch_size"):
        build(registry.sampler, {"name": name, "batch_size": size})


def test_a_sampler_without_a_case_fails_the_contract():
    with pytest.raises(pytest.fail.Exception, match=r"'toy' is registered and has no case.*Add one to CASES in tests/"):
        case("toy")
