"""Recorded sums: content names the data once it was checked, and only while files are what they were."""

import os
import shutil

import pytest

from unseen.core.errors import DataError
from unseen.data.item_readers import ImageFiles

FILES = ("a/1.jpg", "a/2.jpg", "b/caf\udce9.jpg")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def data(root, first="one"):
    for number, file in enumerate(FILES):
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(first if number == 0 else f"other {number}")
    return ImageFiles(root, FILES)


def record(source, sums=("x", "y", "z")):
    return source.record_checksums(dict(enumerate(sums)))


def test_sums_are_found_again_and_others_below_the_root_stay(tmp_path):
    source = data(tmp_path / "data")
    assert source.checksums() == [None, None, None]
    place = record(source)
    assert place.is_relative_to(tmp_path / "cache")
    assert source.checksums() == ["x", "y", "z"]
    record(source, ["w"])
    assert source.checksums() == ["w", "y", "z"]
    assert data(tmp_path / "elsewhere").checksums() == [None, None, None]


def test_a_sum_does_not_count_when_size_or_time_changed(tmp_path):
    source = data(tmp_path / "data")
    record(source)
    time = source.times[0]
    (source.root / FILES[0]).write_text("longer than before")
    os.utime(source.root / FILES[0], ns=(time, time))
    os.utime(source.root / FILES[1], ns=(time, source.times[1] + 1))
    assert ImageFiles(source.root, FILES).checksums() == [None, None, "z"]


def test_a_copy_has_the_hash_of_the_original_once_both_were_checked(tmp_path):
    one = data(tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    os.utime(tmp_path / "two" / FILES[0], ns=(1, 1))
    two = ImageFiles(tmp_path / "two", FILES)
    assert one.content_hash() != two.content_hash()
    before = one.content_hash()
    record(one)
    assert one.content_hash() != before
    record(two)
    assert one.content_hash() == two.content_hash()
    record(two, ("x", "y", "q"))
    assert one.content_hash() != two.content_hash()


def test_sums_of_some_files_alone_do_not_name_the_content(tmp_path):
    source = data(tmp_path / "data")
    before = source.content_hash()
    record(source, ["x", "y"])
    assert source.content_hash() == before


def test_the_same_folder_by_another_way_has_the_same_record(tmp_path, monkeypatch):
    record(data(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to("data")
    for root in (tmp_path / "data" / ".." / "data", tmp_path / "link", tmp_path.relative_to(tmp_path) / "data"):
        assert ImageFiles(root, FILES).checksums() == ["x", "y", "z"]


def test_a_damaged_record_is_named(tmp_path):
    source = data(tmp_path / "data")
    place = record(source)
    place.write_text("{")
    with pytest.raises(DataError, match=rf"{place.name} is not valid JSON.*run unseen data check again"):
        source.checksums()


def test_no_files_have_no_sums(tmp_path):
    assert ImageFiles(tmp_path, ()).checksums() == []
