"""What the benchmarks share: files that are missing, counts that differ, folders that hold something else."""

import numpy as np
import pytest
from PIL import Image

from tests.helpers.present import files_of, present
from unseen.core.errors import DataError
from unseen.data.sources._benchmark import (
    Benchmark,
    ListedImage,
    count_differences,
    find_image_root,
    missing_files,
    parse_integer,
    read_columns,
)

NAMES = {1: "wren", 2: "crow"}
X = Benchmark("x", {"train": (2, 1), "test": (2, 1)})


def write(root, *paths):
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4), "red").save(root / path)


def listed(*rows):
    return [ListedImage(path, number, "train" if number == 1 else "test") for path, number in rows]


FOUR = [("b/2.jpg", 2), ("a/1.jpg", 1), ("b/1.jpg", 2), ("a/2.jpg", 1)]


def test_images_stand_in_the_order_of_class_numbers_and_paths_whatever_the_order_of_the_list(tmp_path):
    write(tmp_path, *[path for path, _ in FOUR])
    one = X.catalogue(tmp_path, listed(*FOUR), NAMES)
    other = X.catalogue(tmp_path, listed(*FOUR[::-1]), NAMES)
    assert one.ids == other.ids == ("a/1.jpg", "a/2.jpg", "b/1.jpg", "b/2.jpg")
    assert one.class_names == ("wren", "crow")
    assert one.labels.tolist() == [0, 0, 1, 1]
    assert one.fixed_split is not None
    assert present(one.fixed_split).tolist() == ["train", "train", "test", "test"]
    assert one.is_query is None
    assert one.notes == ()
    assert one.fingerprint == other.fingerprint


def test_a_class_without_images_is_no_class_and_is_told(tmp_path):
    write(tmp_path, *[path for path, _ in FOUR])
    names = NAMES | {3: "owl"}
    found = Benchmark("x", {"test": (3, 2)}).catalogue(tmp_path, listed(*FOUR), names)
    assert found.class_names == ("wren", "crow")
    assert found.notes == ("the test part has 2 images of 1 classes; the published one has 3 images of 2 classes",)


def test_a_class_with_a_single_image_stays_and_is_told(tmp_path):
    write(tmp_path, *[path for path, _ in FOUR])
    found = Benchmark("x", {"test": (2, 1)}).catalogue(tmp_path, listed(*FOUR[:3]), NAMES)
    assert found.notes == ("classes with a single item: 1",)


def test_every_part_that_differs_gets_a_sentence():
    parts, labels = np.array(["train", "train", "query"]), np.array([0, 0, 1])
    stated = {"train": (2, 1), "query": (2, 1), "gallery": (1, 1)}
    assert count_differences(parts, labels, stated) == [
        "the query part has 1 images of 1 classes; the published one has 2 images of 1 classes",
        "the gallery part has 0 images of 0 classes; the published one has 1 images of 1 classes",
    ]


def test_missing_images_are_counted_and_the_first_are_named(tmp_path):
    write(tmp_path, "a/1.jpg")
    (tmp_path / "b").write_text("no folder")
    (tmp_path / "a" / "2.jpg").mkdir()
    assert missing_files(tmp_path, ["a/1.jpg", "a/2.jpg", "b/1.jpg", "c/1.jpg"]) == ["a/2.jpg", "b/1.jpg", "c/1.jpg"]
    with pytest.raises(DataError) as caught:
        X.catalogue(tmp_path, listed(*FOUR), NAMES)
    assert caught.value.message == (
        f"x: 3 of 4 listed images are not below {tmp_path}: "
        "images 'a/2.jpg', 'b/1.jpg', 'b/2.jpg'. Use a complete copy."
    )


def test_an_image_that_is_listed_twice_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"x: listed more than once: image 'a/1\.jpg'"):
        X.catalogue(tmp_path, listed(*FOUR, ("a/1.jpg", 2)), NAMES)


def test_a_wrong_folder_is_described(tmp_path):
    def found(place):
        return X.wrong_folder(place, "list.txt").message

    assert f"x: looked for list.txt in {tmp_path}, found nothing: it is empty. Set x=FOLDER" in found(tmp_path)
    assert "found no such folder" in found(tmp_path / "none")
    (tmp_path / "file").write_text("x")
    assert "found a file in its place" in found(tmp_path / "file")
    for name in "abcd":
        (tmp_path / name).mkdir()
    assert "found 4 folders 'a', 'b', 'c' and 1 more and the file 'file'" in found(tmp_path)


def test_images_are_where_most_of_the_listed_paths_lead(tmp_path):
    write(tmp_path, "images/a/1.jpg", "images/a/2.jpg", "a/1.jpg")
    paths = ["a/1.jpg", "a/2.jpg", "a/3.jpg"]
    assert find_image_root([tmp_path, tmp_path / "images"], paths) == tmp_path / "images"
    assert find_image_root([tmp_path / "x", tmp_path / "y"], paths) == tmp_path / "x"


def test_rows_of_a_list_keep_spaces_in_the_last_column_only(tmp_path):
    file = tmp_path / "list.txt"
    file.write_text("1  a b.jpg \n\n2 c.jpg\n")
    assert read_columns(file, 2) == [["1", "a b.jpg"], ["2", "c.jpg"]]
    file.write_text("1 a\n2\n")
    with pytest.raises(DataError, match=r"list\.txt, row 2: 2 columns are needed; got '2'"):
        read_columns(file, 2)
    file.write_text("\n")
    with pytest.raises(DataError, match="is empty"):
        read_columns(file, 2)
    with pytest.raises(DataError, match="an integer is needed; got 'x'"):
        parse_integer(file, "x")


def number(name):
    return {"wren": 1, "crow": 2}.get(name)


def test_class_folders_are_found_in_place_below_and_in_two_halves(tmp_path):
    write(tmp_path, "plain/wren/1.jpg", "plain/crow/1.jpg")
    write(tmp_path, "deep/images/wren/1.jpg", "deep/images/crow/1.jpg")
    write(tmp_path, "parted/train/wren/1.jpg", "parted/test/wren/1.jpg", "parted/test/crow/2.jpg")
    (tmp_path / "none").mkdir()
    found = present(X.from_class_folders(tmp_path / "plain", ("", "images"), number))
    assert files_of(found).root == tmp_path / "plain"
    assert found.ids == ("wren/1.jpg", "crow/1.jpg")
    assert found.class_names == ("wren", "crow")
    assert found.labels.tolist() == [0, 1]
    assert present(found.fixed_split).tolist() == ["train", "test"]
    assert (
        present(X.from_class_folders(tmp_path / "plain", ("",), number, NAMES | {2: "raven"})).class_names[1] == "raven"
    )
    deep = present(X.from_class_folders(tmp_path / "deep", ("", "images"), number))
    assert files_of(deep).root == tmp_path / "deep" / "images"
    assert X.from_class_folders(tmp_path / "none", ("", "images"), number) is None


def test_halves_of_another_task_are_put_together(tmp_path):
    write(tmp_path, "train/wren/1.jpg", "train/crow/1.jpg", "test/wren/1.jpg", "test/crow/2.jpg")
    found = present(X.from_class_folders(tmp_path, ("",), number))
    assert files_of(found).root == tmp_path
    assert found.ids == ("test/wren/1.jpg", "train/wren/1.jpg", "test/crow/2.jpg", "train/crow/1.jpg")
    assert found.labels.tolist() == [0, 0, 1, 1]
    assert found.notes == ()


def test_a_folder_beside_class_folders_that_is_no_class_is_refused(tmp_path):
    write(tmp_path, "wren/1.jpg", "crow/1.jpg", "owl/1.jpg")
    with pytest.raises(DataError, match=r"x: folder 'owl' in .* is none of the data set's classes"):
        X.from_class_folders(tmp_path, ("",), number)
