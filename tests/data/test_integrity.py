"""A check of all files: broken ones, altered ones, duplicates within and across the split."""

import os

import numpy as np
import pytest
from PIL import Image

from tests.helpers.present import files_of
from unseen.core.errors import DataError
from unseen.data import split_catalogue
from unseen.data.catalogue import Catalogue
from unseen.data.integrity import check_images, check_integrity, groups_of_equal
from unseen.data.item_readers import FeatureArray
from unseen.data.sources.folder import folder

TEST_B = "classes:test=[c,d],validation=0"


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def place(tmp_path):
    generator = np.random.default_rng(0)
    for name in "abcd":
        (tmp_path / name).mkdir()
        for image in range(3):
            pixels = generator.integers(0, 256, (6, 8, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / name / f"{image}.png")
    return tmp_path


def copy(place, one, other):
    (place / other).write_bytes((place / one).read_bytes())


def names(catalogue, groups):
    return [[catalogue.ids[index] for index in group] for group in groups]


@pytest.mark.parametrize("workers", [0, 2])
def test_whole_and_different_images_pass_and_their_sums_are_recorded(place, workers):
    found = folder(str(place))
    result = check_integrity(found, workers=workers, quiet=True)
    assert (result.files, result.broken, result.altered, result.duplicates) == (12, (), (), ())
    assert None not in files_of(found).checksums()
    assert folder(str(place)).fingerprint == found.fingerprint


def test_duplicates_are_found_by_bytes_and_by_pixels_and_parted_by_side_and_class(place):
    copy(place, "a/0.png", "a/1.png")  # one class
    copy(place, "a/2.png", "b/2.png")  # two classes of one side
    Image.open(place / "b" / "0.png").save(place / "c" / "0.bmp")  # other bytes, same pixels, other side
    found = folder(str(place))
    result = check_integrity(found, split_catalogue(found, TEST_B), quiet=True)
    assert names(found, result.duplicates) == [["a/0.png", "a/1.png"], ["a/2.png", "b/2.png"], ["b/0.png", "c/0.bmp"]]
    assert names(found, result.confused) == [["a/2.png", "b/2.png"], ["b/0.png", "c/0.bmp"]]
    assert names(found, result.crossing) == [["b/0.png", "c/0.bmp"]]
    assert check_integrity(found, quiet=True).crossing == ()


def test_images_of_the_same_pixels_in_another_shape_are_not_duplicates(place):
    Image.new("RGB", (4, 2), "red").save(place / "a" / "wide.png")
    Image.new("RGB", (2, 4), "red").save(place / "a" / "tall.png")
    assert check_integrity(folder(str(place)), quiet=True).duplicates == ()


def test_broken_files_are_named_and_get_no_sum(place):
    half = (place / "b" / "1.png").read_bytes()
    (place / "b" / "1.png").write_bytes(half[: len(half) // 2])
    (place / "d" / "0.png").write_bytes(b"")
    copy(place, "d/0.png", "d/1.png")
    found = folder(str(place))
    result = check_integrity(found, quiet=True)
    assert len(result.broken) == 3
    assert "b/1.png" in result.broken[0]
    assert "the file is empty" in result.broken[1]
    assert result.duplicates == ()  # two broken files are not the same image
    files = files_of(found)
    unknown = [path for path, checksum in zip(files.paths, files.checksums(), strict=True) if checksum is None]
    assert unknown == ["b/1.png", "d/0.png", "d/1.png"]


def test_a_file_that_changed_under_the_same_size_and_time_is_told(place):
    file = place / "a" / "0.bmp"
    Image.new("RGB", (4, 4), "red").save(file)
    found = folder(str(place))
    check_integrity(found, quiet=True)
    status = os.stat(file)
    Image.new("RGB", (4, 4), "blue").save(file)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    again = folder(str(place))
    assert again.fingerprint == found.fingerprint  # nobody looked yet
    assert names(again, [check_integrity(again, quiet=True).altered]) == [["a/0.bmp"]]
    assert folder(str(place)).fingerprint != found.fingerprint
    assert check_integrity(again, quiet=True).altered == ()


def test_what_was_checked_and_kept_its_size_and_time_is_not_decoded_again(place):
    file = place / "a" / "0.png"
    before, status = file.read_bytes(), os.stat(file)
    check_integrity(folder(str(place)), quiet=True)
    file.write_bytes(b"x" * len(before))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    check_images(folder(str(place)), quiet=True)  # passes: the record stands for the file
    os.utime(file, ns=(0, 0))
    with pytest.raises(DataError, match=r"a/0\.png"):
        check_images(folder(str(place)), quiet=True)


def test_features_have_no_files_to_check():
    catalogue = Catalogue(
        name="x",
        reader=FeatureArray(np.zeros((2, 3))),
        labels=np.array([0, 1]),
        class_names=("a", "b"),
        ids=("1", "2"),
    )
    with pytest.raises(DataError, match="x: there are no image files to check; got 'features'"):
        check_integrity(catalogue)


def test_alike_agrees_with_a_comparison_of_all_pairs():
    generator = np.random.default_rng(1)
    values = {index: str(value) for index, value in enumerate(generator.integers(0, 15, 40))}
    pairs = {(i, j) for i in values for j in values if i < j and values[i] == values[j]}
    groups = groups_of_equal(values)
    assert {(i, j) for group in groups for i in group for j in group if i < j} == pairs
    assert min(map(len, groups)) > 1
