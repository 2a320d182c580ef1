"""Counts of parts and sizes of images."""

import numpy as np
import pytest
from PIL import Image

from tests.helpers.present import present
from unseen.data import split_catalogue
from unseen.data.catalogue import Catalogue
from unseen.data.item_readers import ImagesInMemory
from unseen.data.sources.folder import folder
from unseen.data.summary import PartSummary, describe_files, image_sizes, summarize_parts


def in_memory(labels, **columns):
    labels = np.array(labels)
    return Catalogue(
        name="x",
        reader=ImagesInMemory(np.zeros((len(labels), 2, 2), np.uint8)),
        labels=labels,
        class_names=tuple("abcd"),
        ids=tuple(map(str, range(len(labels)))),
        **columns,
    )


def test_parts_are_counted_with_the_sizes_of_their_classes():
    labels = [0, 0, 0, 1, 1, 2, 2, 2, 2, 3, 3]
    catalogue = in_memory(labels)
    assert summarize_parts(catalogue, None) == [PartSummary("all", 11, 4, 2, 2.5, 4)]
    split = split_catalogue(catalogue, "first:validation=0")
    assert summarize_parts(catalogue, split)[1:] == [
        PartSummary("train", 5, 2, 2, 2.5, 3),
        PartSummary("test", 6, 2, 2, 3, 4),
    ]


def test_queries_and_gallery_are_parts_where_they_differ():
    marks = np.array([False, False, False, False, True, False, True, False])
    catalogue = in_memory([0, 0, 1, 1, 2, 2, 3, 3], is_query=marks, is_gallery=~marks)
    parts = summarize_parts(catalogue, split_catalogue(catalogue, "first:validation=0"))
    assert [(part.name, part.images) for part in parts[2:]] == [("test", 4), ("queries", 2), ("gallery", 2)]


def test_sizes_are_read_from_headers(tmp_path):
    for name, sizes in (("a", [(4, 2), (4, 2), (9, 3)]), ("b", [(5, 7), (6, 1)])):
        (tmp_path / name).mkdir()
        for number, size in enumerate(sizes):
            Image.new("RGB", size).save(tmp_path / name / f"{number}.png")
    (tmp_path / "b" / "broken.jpg").write_bytes(b"no header")
    found = present(image_sizes(folder(str(tmp_path)), quiet=True))
    assert (found.width, found.height) == ((4, 5, 9), (1, 2, 7))
    assert found.commonest[0] == ((4, 2), 2)
    assert found.unreadable == 1


def test_what_has_no_files_has_no_sizes_of_files(tmp_path):
    assert image_sizes(in_memory([0, 0, 1, 1])) is None
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.png").write_bytes(b"broken")
    assert image_sizes(folder(str(tmp_path), small_classes="keep"), quiet=True) is None


@pytest.mark.parametrize("quality", [10, 49, 50, 75, 80, 95, 99, 100])
def test_the_quality_of_jpeg_files_is_read_from_their_tables(tmp_path, quality):
    for name in "ab":
        (tmp_path / name).mkdir()
        for number in range(3):
            Image.new("RGB", (40 + number, 30 + number)).save(tmp_path / name / f"{number}.jpg", quality=quality)
    assert describe_files(folder(str(tmp_path))) == {
        "format": "JPEG",
        "shorter_side": 31,
        "jpeg_quality": quality,
        "sampled": 6,
    }


def test_files_of_another_format_have_no_quality_and_other_data_no_files(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        for number in range(2):
            Image.new("RGB", (9, 5)).save(tmp_path / name / f"{number}.png")
    described = present(describe_files(folder(str(tmp_path))))
    assert (described["format"], described["jpeg_quality"]) == ("PNG", None)
    assert describe_files(in_memory([0, 0, 1, 1])) is None


def test_of_many_files_some_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr("unseen.data.summary._SAMPLED", 3)
    for name in "ab":
        (tmp_path / name).mkdir()
        for number in range(4):
            Image.new("RGB", (9, 5)).save(tmp_path / name / f"{number}.png")
    assert present(describe_files(folder(str(tmp_path))))["sampled"] == 3
