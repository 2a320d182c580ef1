"""Draws on their way to a file and back."""

import numpy as np
import pytest

from unseen.core.errors import DataError
from unseen.core.randomness import derive, numpy_generator
from unseen.evaluation import array_files
from unseen.evaluation.draws_files import load_draws, save_draws
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
    whole = path.read_bytes()
    for content in (b"", b"text", whole[:-200]):
        path.write_bytes(content)
        with pytest.raises(DataError, match="does not hold the draws of an evaluation"):
            load_draws(path)
    path.write_bytes(whole)
    monkeypatch.setattr(array_files, "LARGEST", 1000)
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
