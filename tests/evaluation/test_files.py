"""Draws written and read again; embeddings and labels mapped, checked, refused in one sentence."""

import numpy as np
import pytest

from unseen.core.errors import DataError
from unseen.core.randomness import derive, numpy_generator
from unseen.evaluation import files
from unseen.evaluation.files import load_draws, read_labels, read_mapped, save_draws
from unseen.evaluation.intervals import Bootstrap, Draws

BOOTSTRAP = Bootstrap(draws=50, confidence=0.9, seed=3)


def make_draws(names=("recall@1", "map@1000", "rho")):
    generator = numpy_generator(derive(0, "draws"))
    return Draws({name: generator.normal(size=50) for name in names}, BOOTSTRAP, "0123456789abcdef")


def test_draws_come_back_to_the_last_bit_with_the_same_bytes_each_time(tmp_path):
    draws = make_draws()
    for name in ("a.npz", "b.npz"):
        save_draws(tmp_path / name, draws)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    loaded = load_draws(tmp_path / "a.npz")
    assert (loaded.bootstrap, loaded.test_set) == (BOOTSTRAP, draws.test_set)
    assert list(loaded.replicates) == list(draws.replicates)
    for name, replicates in draws.replicates.items():
        np.testing.assert_array_equal(loaded.replicates[name], replicates)


def test_a_test_set_of_one_class_has_no_draws_to_keep(tmp_path):
    save_draws(tmp_path / "draws.npz", make_draws(names=()))
    assert load_draws(tmp_path / "draws.npz").replicates == {}


def test_files_that_are_not_ours_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "draws.npz"
    with pytest.raises(DataError, match="no file"):
        load_draws(path)
    save_draws(path, make_draws())
    complete = path.read_bytes()
    for content in (b"", b"text", complete[:-200]):
        path.write_bytes(content)
        with pytest.raises(DataError, match="does not hold the draws of an evaluation"):
            load_draws(path)
    path.write_bytes(complete)
    monkeypatch.setattr(files, "LARGEST", 1000)
    with pytest.raises(DataError, match="unpacks to more than 1000 bytes"):
        load_draws(path)


@pytest.mark.parametrize(
    "change",
    [
        {"replicates": np.zeros((3, 49))},
        {"replicates": np.zeros((2, 50))},
        {"replicates": np.zeros((3, 50), dtype=np.float32)},
        {"scores": np.array([["recall@1"]])},
        {"draws": np.array(3)},
        {"confidence": np.array([0.9, 0.9])},
        {"seed": np.array("x")},
    ],
    ids=["fewer draws", "fewer scores", "rounded", "names in a table", "too few", "two confidences", "no seed"],
)
def test_arrays_that_disagree_are_refused(tmp_path, change):
    save_draws(tmp_path / "draws.npz", make_draws())
    with np.load(tmp_path / "draws.npz", allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    np.savez(tmp_path / "draws.npz", **(arrays | change))
    with pytest.raises(DataError, match="does not hold the draws"):
        load_draws(tmp_path / "draws.npz")
    del arrays["test_set"]
    np.savez(tmp_path / "draws.npz", **arrays)
    with pytest.raises(DataError, match="does not hold the draws"):
        load_draws(tmp_path / "draws.npz")


def test_a_table_is_mapped_not_loaded(tmp_path):
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.save(tmp_path / "rows.npy", rows)
    found = read_mapped(tmp_path / "rows.npy")
    assert isinstance(found, np.memmap)
    assert np.array_equal(found, rows)


def test_labels_come_from_an_npy_file_or_a_text(tmp_path):
    np.save(tmp_path / "labels.npy", np.array([5, 5, 7]))
    (tmp_path / "labels.txt").write_text("owl\nowl\nemu\n", encoding="utf-8")
    assert list(read_labels(tmp_path / "rows.npy", tmp_path / "labels.npy")) == [5, 5, 7]
    assert read_labels(tmp_path / "rows.npy", tmp_path / "labels.txt") == ["owl", "owl", "emu"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"not an array", "is not an npy file"),
        (b"", "is not an npy file"),
        (np.ones(3), "does not hold a table of numbers"),
        (np.array([["a", "b"]]), "does not hold a table of numbers"),
        (np.array([[{}]], dtype=object), "is not an npy file"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path, content, message):
    path = tmp_path / "rows.npy"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        np.save(path, content, allow_pickle=True)
    with pytest.raises(DataError, match=message):
        read_mapped(path)


def test_labels_that_are_missing_or_broken_are_refused(tmp_path):
    path = tmp_path / "rows.npy"
    with pytest.raises(DataError, match="holds no labels. Use --labels"):
        read_labels(path, None)
    with pytest.raises(DataError, match="no file"):
        read_labels(path, tmp_path / "absent.txt")
    with pytest.raises(DataError, match="no file"):
        read_labels(path, tmp_path / "absent.npy")
    np.save(tmp_path / "wide.npy", np.ones((2, 2), dtype=int))
    with pytest.raises(DataError, match="does not hold one label per embedding"):
        read_labels(path, tmp_path / "wide.npy")
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="cannot be read as text"):
        read_labels(path, tmp_path / "bytes.txt")
