"""Batches: what item_keys become, the same for any number of workers, and errors that arrive as they were raised."""

import hashlib
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import torch
from PIL import Image

from tests.helpers.present import present
from unseen.core.errors import ConfigError, DataError
from unseen.core.randomness import derive
from unseen.data import batches as loading
from unseen.data.batches import Batch, CatalogueDataset, ItemKey, evaluation_batches, make_loader
from unseen.data.catalogue import Catalogue
from unseen.data.item_readers import FeatureArray, ImagesInMemory
from unseen.data.sources.folder import folder
from unseen.data.transforms import Crop, Plain

# torch warns of more workers than cores; the promise holds for them too.
more_workers = pytest.mark.filterwarnings("ignore:This DataLoader will create")


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    root = tmp_path_factory.mktemp("images")
    generator = np.random.default_rng(0)
    for name in "abcd":
        (root / name).mkdir()
        for item in range(5):
            pixels = generator.integers(0, 256, (24 + item, 30 - item, 3), np.uint8)
            Image.fromarray(pixels).save(root / name / f"{item}.png")
    return folder(str(root))


def held(reader, labels):
    return Catalogue(
        name="held",
        reader=reader,
        labels=np.array(labels),
        class_names=tuple(map(str, range(max(labels) + 1))),
        ids=tuple(map(str, range(len(labels)))),
    )


class _SharedInWorker:
    """Says instead of a batch's indices whether its inputs were in shared memory when they were made."""

    is_in_memory = False

    def __init__(self, items):
        self.items = items

    def __getitems__(self, item_keys):
        batch = self.items.__getitems__(item_keys)
        return batch._replace(indices=torch.tensor([int(batch.inputs.is_shared())]))


def epoch_of_keys(epoch, batches=6, size=4):
    order = np.random.default_rng(epoch).permutation(20)
    return [
        [
            ItemKey(int(order[(batch * size + place) % 20]), derive(0, "augment", epoch, batch * size + place))
            for place in range(size)
        ]
        for batch in range(batches)
    ]


def sums(batches):
    return [
        hashlib.sha256(b"".join(part.contiguous().numpy().tobytes() for part in batch)).hexdigest() for batch in batches
    ]


def test_features_come_as_float32_with_labels_and_indices():
    rows = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float16)
    items = CatalogueDataset(held(FeatureArray(rows), [0, 0, 1, 1, 2, 2]))
    batch = items.__getitems__([ItemKey(5, 1), ItemKey(0, 2), ItemKey(5, 3)])
    assert isinstance(batch, Batch)
    assert batch.inputs.dtype == torch.float32
    assert np.array_equal(batch.inputs.numpy(), rows[[5, 0, 5]].astype(np.float32))
    assert batch.labels.tolist() == [2, 0, 2]
    assert batch.indices.tolist() == [5, 0, 5]
    assert batch.labels.dtype == batch.indices.dtype == torch.int64
    assert len(items) == 6


@pytest.mark.parametrize("kind", ["<f2", ">f2", ">f4", "<f8", "u1", "i1", "<u2", ">u4", "<u8", "<i8"])
def test_features_of_every_type_come_as_float32(kind):
    rows = np.arange(8).reshape(4, 2).astype(kind)
    items = CatalogueDataset(held(FeatureArray(rows), [0, 0, 1, 1]))
    inputs = items.__getitems__([ItemKey(3, None), ItemKey(1, None)]).inputs
    assert inputs.dtype == torch.float32
    assert inputs.tolist() == [[6, 7], [2, 3]]


def test_a_batch_is_a_copy_that_can_be_written_to():
    rows = np.zeros((4, 2), np.float32)
    items = CatalogueDataset(held(FeatureArray(rows), [0, 0, 1, 1]))
    items.__getitems__([ItemKey(0, None)]).inputs.add_(1)
    assert rows.max() == 0


def test_pixels_in_memory_are_scaled_to_minus_one_to_one():
    grey = np.array([0, 51, 255, 102], np.uint8).reshape(4, 1, 1) * np.ones((1, 3, 5), np.uint8)
    batch = CatalogueDataset(held(ImagesInMemory(grey), [0, 0, 1, 1])).__getitems__(evaluation_batches([0, 1, 2], 3)[0])
    assert batch.inputs.shape == (3, 1, 3, 5)
    assert torch.allclose(batch.inputs[:, 0, 0, 0], torch.tensor([-1.0, -0.6, 1.0]))
    colour = np.random.default_rng(0).integers(0, 256, (4, 3, 5, 3), np.uint8)
    batch = CatalogueDataset(held(ImagesInMemory(colour), [0, 0, 1, 1])).__getitems__([ItemKey(2, None)])
    assert batch.inputs.shape == (1, 3, 3, 5)
    assert batch.inputs.is_contiguous()
    assert torch.allclose(batch.inputs[0], torch.from_numpy(colour[2]).permute(2, 0, 1) / 127.5 - 1)


def test_pixels_in_memory_with_a_transform_are_rgb():
    grey = np.random.default_rng(0).integers(0, 256, (4, 8, 8), np.uint8)
    catalogue = held(ImagesInMemory(grey), [0, 0, 1, 1])
    batch = CatalogueDataset(catalogue, Plain()).__getitems__([ItemKey(1, None)])
    assert batch.inputs.shape == (1, 3, 8, 8)
    plain = CatalogueDataset(catalogue).__getitems__([ItemKey(1, None)]).inputs
    assert torch.allclose(batch.inputs, plain.expand(-1, 3, -1, -1), atol=1e-6)  # float32 rounding


def test_files_go_through_the_transform_with_their_own_key(images):
    crop = Crop(size=16)
    batch = CatalogueDataset(images, crop).__getitems__([ItemKey(3, 7), ItemKey(3, 8), ItemKey(11, None)])
    for row, (index, key) in enumerate(((3, 7), (3, 8), (11, None))):
        assert torch.equal(batch.inputs[row], crop(images.reader.image(index), key))
    assert batch.labels.tolist() == [0, 0, 2]


def test_large_jpegs_are_reduced_unless_the_transform_says_no(tmp_path):
    rows, columns = np.mgrid[0:300, 0:400]
    for name in "ab":
        (tmp_path / name).mkdir()
        image = Image.fromarray(np.stack([rows * 0.8, columns * 0.6, rows * 0.4], 2).astype(np.uint8))
        image.save(tmp_path / name / "1.jpg", quality=95)
    files = folder(str(tmp_path), small_classes="keep")
    whole, reduced = Crop(size=32, draft=False), Crop(size=32)
    for key in (None, 1, 2):
        full = CatalogueDataset(files, whole)[ItemKey(0, key)].inputs[0]
        assert torch.equal(full, whole(files.reader.image(0), key))
        small = CatalogueDataset(files, reduced)[ItemKey(0, key)].inputs[0]
        assert not torch.equal(small, full)
        assert (small - full).abs().mean() < 0.02  # about one level of 255, divided by the standard deviation
    assert "1/8" in present(CatalogueDataset(files, reduced).decoding)["jpeg"]
    assert present(CatalogueDataset(files, whole).decoding)["jpeg"].startswith("at full size")
    assert CatalogueDataset(held(FeatureArray(np.zeros((2, 2))), [0, 1])).decoding is None


def test_a_transform_of_ones_own_gets_the_whole_image(images):
    def own(image, key):
        return torch.full((3, 2, 2), float(image.width))

    batch = CatalogueDataset(images, own).__getitems__([ItemKey(0, None), ItemKey(1, 5)])
    assert batch.inputs[:, 0, 0, 0].tolist() == [30, 29]
    assert "full size" in present(CatalogueDataset(images, own).decoding)["jpeg"]


def test_images_come_in_channels_last_and_writable(images):
    batch = CatalogueDataset(images, Crop(size=16)).__getitems__([ItemKey(0, None), ItemKey(1, 5)])
    assert batch.inputs.is_contiguous(memory_format=torch.channels_last)
    batch.inputs.zero_()
    assert batch.inputs.abs().max() == 0


def test_files_need_a_transform_and_features_take_none(images):
    with pytest.raises(ConfigError, match="image files need a transform"):
        CatalogueDataset(images)
    with pytest.raises(ConfigError, match="features take no transform"):
        CatalogueDataset(held(FeatureArray(np.zeros((2, 2))), [0, 1]), Plain())


def test_images_of_different_sizes_need_a_size(images):
    with pytest.raises(DataError, match=r"images of a batch differ in size.*plain:size="):
        CatalogueDataset(images, Plain()).__getitems__([ItemKey(0, None), ItemKey(1, None)])


@pytest.mark.parametrize("workers", [1, 2, pytest.param(3, marks=more_workers), pytest.param(4, marks=more_workers)])
def test_batches_do_not_depend_on_the_number_of_workers(images, workers):
    items = CatalogueDataset(images, Crop(size=16))
    for epoch in range(2):
        torch.manual_seed(epoch)
        alone = sums(make_loader(items, epoch_of_keys(epoch)))
        torch.manual_seed(99)
        assert sums(make_loader(items, epoch_of_keys(epoch), workers=workers)) == alone
        assert len(set(alone)) == 6


def test_a_worker_puts_images_into_shared_memory_once_and_they_can_be_written_to(images):
    # torch moves a tensor that is not shared yet by a second copy; there must be none to move.
    items = CatalogueDataset(images, Crop(size=16))
    watched = _SharedInWorker(items)
    batch = next(iter(make_loader(watched, epoch_of_keys(0), workers=1)))
    assert batch.indices.tolist() == [1]
    plain = next(iter(make_loader(items, epoch_of_keys(0), workers=1)))
    plain.inputs.zero_()
    assert plain.inputs.abs().max() == 0


def test_batches_are_the_same_under_spawn(images):
    items = CatalogueDataset(images, Crop(size=16))
    alone = sums(make_loader(items, epoch_of_keys(0)))
    assert sums(make_loader(items, epoch_of_keys(0), workers=1, start_method="spawn")) == alone


@pytest.mark.parametrize("workers", [0, 1])
def test_loading_leaves_the_global_generators_as_they_were(images, workers):
    torch.manual_seed(3)
    before, numbers = torch.get_rng_state(), np.random.get_state(legacy=False)["state"]["key"].copy()
    list(make_loader(CatalogueDataset(images, Crop(size=8)), epoch_of_keys(0), workers=workers))
    assert torch.equal(torch.get_rng_state(), before)
    assert np.array_equal(np.random.get_state(legacy=False)["state"]["key"], numbers)


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_a_broken_file_reaches_the_caller_as_the_same_sentence(tmp_path, workers):
    for name in "ab":
        (tmp_path / name).mkdir()
        for item in range(4):
            Image.new("RGB", (9, 9), "red").save(tmp_path / name / f"{item}.png")
    broken = tmp_path / "b" / "2.png"
    broken.write_bytes(broken.read_bytes()[:-30])
    items = CatalogueDataset(folder(str(tmp_path)), Plain())
    batches = iter(make_loader(items, evaluation_batches(range(8), 2), workers=workers))
    assert [next(batches).indices.tolist() for _ in range(3)] == [[0, 1], [2, 3], [4, 5]]
    with pytest.raises(DataError) as caught:
        next(batches)
    assert caught.value.message.startswith(f"cannot decode {broken}: ")
    assert "Traceback" not in caught.value.message


@pytest.mark.parametrize("workers", [0, 1])
def test_a_file_that_changed_since_the_catalogue_was_made_is_refused(tmp_path, workers):
    for name in ("a/1", "a/2", "b/1", "b/2"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.new("RGB", (9, 9), "red").save(tmp_path / f"{name}.png")
    items = CatalogueDataset(folder(str(tmp_path)), Plain())
    os.utime(tmp_path / "b" / "1.png", ns=(1, 1))
    with pytest.raises(DataError, match=r"b/1\.png changed after the data was read"):
        list(make_loader(items, evaluation_batches(range(4), 2), workers=workers))


def test_evaluation_batches_cover_every_item_once():
    batches = evaluation_batches(np.array([4, 2, 9, 7, 5]), 2)
    assert batches == [[(4, None), (2, None)], [(9, None), (7, None)], [(5, None)]]
    assert evaluation_batches([], 3) == []
    with pytest.raises(ConfigError, match="batch_size"):
        evaluation_batches([1], 0)


def test_a_loader_knows_its_length_and_can_be_left_early(images):
    batches = make_loader(CatalogueDataset(images, Plain(size=8)), evaluation_batches(range(20), 6), workers=1)
    assert len(batches) == 4
    assert next(iter(batches)).indices.tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(ConfigError, match="workers"):
        make_loader(CatalogueDataset(images, Plain()), [], workers=-1)


class Slow:
    """Items that are their own keys and take a millisecond each."""

    is_in_memory = False

    def __init__(self, broken=None):
        self.loaded, self.threads, self.broken = [], set(), broken

    def __getitems__(self, keys):
        self.threads.add(threading.current_thread().name)
        values = []
        for key in keys:
            if key == self.broken:
                raise DataError(f"item {key} is broken")
            time.sleep(0.001)
            self.loaded.append(key)
            values.append(key)
        return values


class InMemory(Slow):
    is_in_memory = True


@pytest.fixture
def threads_before():
    """Fail a test that leaves a thread behind."""
    before = set(threading.enumerate())
    yield before
    assert set(threading.enumerate()) == before


def running(threads_before):
    return [thread for thread in threading.enumerate() if thread not in threads_before]


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_threads_load_the_same_batches_in_order(images, threads, monkeypatch, threads_before):
    items = CatalogueDataset(images, Crop(size=16))
    directly = sums(items.__getitems__(keys) for keys in epoch_of_keys(0))
    monkeypatch.setattr(loading, "loader_threads", lambda: threads)
    loader = make_loader(items, epoch_of_keys(0))
    assert sums(loader) == directly
    assert sums(loader) == directly
    assert list(make_loader(Slow(), [[1, 2], [], [3]])) == [[1, 2], [], [3]]
    assert list(make_loader(Slow(), [])) == []


def test_batches_are_loaded_ahead_but_not_far(threads_before):
    asked = []

    def keys():
        for number in range(40):
            asked.append((number, threading.current_thread()))
            yield [number]

    batches = iter(make_loader(Slow(), keys()))
    for number in range(40):
        assert next(batches) == [number]
        assert len(asked) <= min(number + 2 + loading.loader_threads(), 40)
        assert 0 < len(running(threads_before)) <= loading.loader_threads()
    assert {thread for _, thread in asked} == {threading.current_thread()}
    assert next(batches, None) is None


def test_data_in_memory_is_loaded_when_asked_for_and_without_threads(threads_before):
    items = InMemory()
    batches = iter(make_loader(items, [[number] for number in range(5)]))
    for number in range(5):
        assert next(batches) == [number]
        assert items.loaded == list(range(number + 1))
    assert items.threads == {threading.current_thread().name}
    assert CatalogueDataset(held(FeatureArray(np.zeros((2, 2))), [0, 1])).is_in_memory


def test_threads_end_within_a_batch_when_the_caller_stops(threads_before):
    items = Slow()
    keys = [[0], *(range(1, 100_000) for _ in range(4))]  # a batch takes minutes
    batches = iter(make_loader(items, keys))
    assert next(batches) == [0]
    assert running(threads_before)
    del batches
    assert not running(threads_before)
    assert len(items.loaded) < 10_000


@pytest.mark.parametrize("problem", [KeyboardInterrupt, ValueError])
def test_threads_end_when_the_caller_fails_or_is_interrupted(problem, threads_before):
    def consume():
        for _ in make_loader(Slow(), [[0], *(range(100_000) for _ in range(4))]):
            raise problem

    with pytest.raises(problem):
        consume()
    assert not running(threads_before)


def test_an_error_of_a_thread_arrives_in_its_turn_and_ends_the_loader(threads_before):
    batches = iter(make_loader(Slow(broken=5), [[0, 1], [2, 3], [4, 5], *(range(6, 100_000) for _ in range(4))]))
    assert [next(batches), next(batches)] == [[0, 1], [2, 3]]
    with pytest.raises(DataError, match="item 5 is broken"):
        next(batches)
    assert not running(threads_before)
    assert next(batches, None) is None


def test_a_process_ends_while_its_loader_is_loading(tmp_path):
    code = """
import sys, time
from unseen.data.batches import make_loader

class Slow:
    is_in_memory = False
    def __getitems__(self, keys):
        return [time.sleep(0.01) for _ in keys]

batches = iter(make_loader(Slow(), [range(1), *(range(50) for _ in range(10**6))]))
next(batches)
sys.exit(3)
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 3
