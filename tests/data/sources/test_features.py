"""Cached features in an npz file, and a sentence for each way in which it can be wrong."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.helpers.present import image_of, present
from unseen.core.errors import DataError
from unseen.data import load_catalogue, split_catalogue
from unseen.data.sources.features import features

CUB = Path(__file__).resolve().parents[4] / "shared" / "data" / "cub160_efficientnet_lite0.npz"


def write(tmp_path, **arrays):
    good = {"features": np.arange(12.0).reshape(6, 2), "labels": np.array([5, 5, -1, -1, 10, 10])}
    file = tmp_path / "cached.npz"
    np.savez(file, **{key: value for key, value in (good | arrays).items() if value is not None})
    return str(file)


def refusal(path, **settings):
    with pytest.raises(DataError) as caught:
        features(path, **settings)
    assert "\n" not in caught.value.message
    return caught.value.message


def test_labels_of_any_sign_become_classes_in_the_order_of_their_values(tmp_path):
    found = features(write(tmp_path))
    assert found.class_names == ("-1", "5", "10")
    assert found.labels.tolist() == [1, 1, 0, 0, 2, 2]
    assert found.ids[3] == "row 3"
    assert found.name == "cached"
    assert found.features.dtype == np.float64


@pytest.mark.parametrize("kind", ["float16", "float32", "int8", "uint8", "int64"])
def test_features_stay_in_the_type_they_came_in(tmp_path, kind):
    assert features(write(tmp_path, features=np.ones((6, 3), kind))).features.dtype == kind


def test_labels_may_be_text_and_numbers_of_64_bit(tmp_path):
    words = np.array(["b", "b", "é", "é", "a", "a"])
    assert features(write(tmp_path, labels=words)).class_names == ("a", "b", "é")
    large = np.array([0, 0, 2**64 - 1, 2**64 - 1, 7, 7], np.uint64)
    assert features(write(tmp_path, labels=large)).class_names == ("0", "7", str(2**64 - 1))


def test_paths_split_and_groups_are_taken_over(tmp_path):
    Image.new("RGB", (4, 4), "red").save(tmp_path / "0.png")
    path = write(
        tmp_path,
        paths=np.array([f"{row}.png" for row in range(6)]),
        split=np.array(["train"] * 4 + ["test"] * 2),
        groups=np.array(["x"] * 2 + ["y"] * 4),
    )
    found = features(path)
    assert found.ids[0] == "0.png"
    assert image_of(found, 0).size == (4, 4)
    assert found.reader.image(1) is None
    assert found.class_groups == ("y", "x", "y")
    assert present(found.fixed_split).tolist() == ["train"] * 4 + ["test"] * 2
    assert features(path, root=str(tmp_path / "elsewhere")).reader.image(0) is None


def test_paths_that_repeat_still_give_ids_of_their_own(tmp_path):
    found = features(write(tmp_path, paths=np.array(["a.png"] * 6)))
    assert len(set(found.ids)) == 6


def test_small_classes_are_refused_dropped_or_kept(tmp_path):
    path = write(tmp_path, labels=np.array([5, 5, -1, 7, 10, 10]))
    assert "classes '-1', '7' have a single item" in refusal(path)
    dropped = features(path, small_classes="drop")
    assert dropped.features.tolist() == [[0, 1], [2, 3], [8, 9], [10, 11]]
    assert dropped.ids == ("row 0", "row 1", "row 4", "row 5")
    assert len(features(path, small_classes="keep")) == 6


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"features": None}, "has no array 'features' (it has: labels)"),
        ({"labels": None}, "has no array 'labels' (it has: features)"),
        ({"features": np.zeros(6)}, "features must have the shape (rows, dimensions); got (6,)"),
        ({"features": np.zeros((0, 4)), "labels": np.zeros(0, int)}, "features are empty; got (0, 4)"),
        ({"features": np.zeros((6, 0))}, "features are empty; got (6, 0)"),
        ({"features": np.zeros((6, 2), complex)}, "features must be floats or integers"),
        ({"features": np.zeros((6, 2), bool)}, "features must be floats or integers"),
        ({"features": np.array([["a", "b"]] * 6)}, "features must be floats or integers"),
        ({"features": np.array([[1, None]] * 6, object)}, "'features' holds Python objects"),
        ({"labels": np.array(["a", None] * 3, object)}, "'labels' holds Python objects"),
        ({"labels": np.array([0, 1, 2])}, "labels must have one entry for each of 6 rows; got 'the shape (3,)'"),
        ({"labels": np.zeros((6, 1), int)}, "labels must have one entry"),
        ({"labels": np.zeros(6)}, "labels must be integers or strings; got 'float64'"),
        ({"labels": np.array(["a", "a", "", "", "b", "b"])}, "labels is empty in 2 rows, the first is row 2"),
        ({"labels": np.zeros(6, int)}, "at least 2 classes are needed; got 1"),
        ({"paths": np.array(["a.png"])}, "paths must have one entry"),
        ({"paths": np.arange(6)}, "paths must be strings"),
        ({"split": np.array(["train"] * 5 + ["dev"])}, "split must be train, validation or test; got 'dev'"),
        ({"groups": np.array(["x", "y"] * 3)}, "has items of two groups"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, arrays, words):
    path = write(tmp_path, **arrays)
    message = refusal(path)
    assert message.startswith(path)
    assert words in message


def test_values_that_are_not_finite_are_counted_by_row(tmp_path):
    rows = np.zeros((6, 3), np.float16)
    rows[2, 1] = np.nan
    assert "1 row holds values that are not finite in float32, the first is row 2" in refusal(
        write(tmp_path, features=rows)
    )
    rows[2, 0] = rows[4, 2] = -np.inf
    assert "2 rows hold" in refusal(write(tmp_path, features=rows))
    large = np.zeros((6, 3))
    large[5, 0] = 1e300  # finite as it stands, infinite in what a network gets
    assert "the first is row 5" in refusal(write(tmp_path, features=large))


def test_what_is_no_npz_is_refused(tmp_path):
    assert refusal(str(tmp_path / "none.npz")) == (
        f"no file {tmp_path / 'none.npz'}. Write it by numpy.savez(path, features=..., labels=...)."
    )
    assert "is not an npz file" in refusal(str(tmp_path))
    np.save(tmp_path / "single.npy", np.zeros(3))
    assert "is not an npz file" in refusal(str(tmp_path / "single.npy"))
    (tmp_path / "text.npz").write_text("words")
    assert "is not an npz file" in refusal(str(tmp_path / "text.npz"))


def test_a_damaged_npz_is_refused_or_read_as_it_was(tmp_path):
    path = Path(write(tmp_path, features=np.random.default_rng(0).normal(size=(6, 40))))
    whole = path.read_bytes()
    expected = features(str(path)).fingerprint
    for cut in np.linspace(0, len(whole) - 1, 30).astype(int):
        path.write_bytes(whole[:cut])
        refusal(str(path))
    generator = np.random.default_rng(1)
    refused = 0
    for _ in range(100):
        damaged = bytearray(whole)
        damaged[generator.integers(len(whole))] ^= 255
        path.write_bytes(damaged)
        try:
            assert features(str(path)).fingerprint == expected
        except DataError:
            refused += 1
    assert refused > 50


@pytest.mark.skipif(not CUB.exists(), reason="the CUB features are not on this machine")
def test_the_features_of_cub_are_read_and_split_as_the_papers_do():
    found = load_catalogue(f"features={CUB}")
    assert len(found) == 11_788
    assert found.features.dtype == np.float16
    sides = split_catalogue(found, "first:validation=0").counts()
    assert sides["train"] == {"images": 5_864, "classes": 100}
    assert sides["test"] == {"images": 5_924, "classes": 100}
    assert split_catalogue(found, "first").counts()["validation"]["classes"] == 15
