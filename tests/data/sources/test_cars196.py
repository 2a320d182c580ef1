"""Cars-196 from the folders people have, with the official numbers of its classes."""

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from tests.helpers.present import present
from unseen.core.errors import DataError
from unseen.data.sources.cars196 import cars196, official_names

BOX = ("bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2")
NUMBERS = [1, 2, 6, 98, 99, 174, 196]


def jpeg(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (5, 4), "red").save(path)


def save_annotations(file, rows, path_field, *extra):
    """A struct array as MATLAB writes it: one by n, each field of each element an array of its own."""
    fields = [*BOX, "class", path_field, *extra]
    annotations = np.empty((1, len(rows)), dtype=[(field, object) for field in fields])
    for place, (path, number) in enumerate(rows):
        for field in (*BOX, *extra):
            annotations[0, place][field] = np.array([[1]], np.uint16)
        annotations[0, place]["class"] = np.array([[number]], np.uint8)
        annotations[0, place][path_field] = path
    file.parent.mkdir(parents=True, exist_ok=True)
    savemat(file, {"annotations": annotations})


def save_names(file, names):
    cell = np.empty((1, len(names)), object)
    cell[0] = names
    file.parent.mkdir(parents=True, exist_ok=True)
    savemat(file, {"class_names": cell})


def rows_below(folder, start=1):
    return [(f"{folder}{start + place:06}.jpg", number) for place, number in enumerate(sorted(NUMBERS * 2))]


def expect_the_zero_shot_split(found):
    names = official_names()
    assert found.class_names == tuple(names[number] for number in NUMBERS)
    side_of = dict(zip(found.labels.tolist(), present(found.fixed_split).tolist(), strict=True))
    assert side_of == {label: "train" if number <= 98 else "test" for label, number in enumerate(NUMBERS)}


def test_the_official_numbers_are_not_in_the_order_of_the_names():
    names = official_names()
    assert list(names) == list(range(1, 197))
    assert len(set(names.values())) == 196
    assert list(names.values()) != sorted(names.values())
    known = {1: "AM General Hummer SUV 2000", 2: "Acura RL Sedan 2012", 6: "Acura Integra Type R 2001"}
    known |= {98: "Eagle Talon Hatchback 1998", 99: "FIAT 500 Abarth 2012", 196: "smart fortwo Convertible 2012"}
    assert {number: names[number] for number in known} == known
    # The numbers go by make, so the makes of one side never stand on the other.
    makes = [name.split()[0] for name in names.values()]
    assert makes == sorted(makes)


def test_one_list_names_images_and_numbers_of_classes(tmp_path):
    rows = rows_below("car_ims/")
    save_annotations(tmp_path / "cars_annos.mat", rows, "relative_im_path", "test")
    for path, _ in rows:
        jpeg(tmp_path / path)
    found = cars196(str(tmp_path))
    expect_the_zero_shot_split(found)
    assert found.ids[0] == "car_ims/000001.jpg"
    assert found.notes[0].startswith(
        "the train part has 8 images of 4 classes; the published one has 8,054 images of 98"
    )
    assert found.notes[1].startswith(
        "the test part has 6 images of 3 classes; the published one has 8,131 images of 98"
    )


@pytest.mark.parametrize("lists", ["devkit", "."])
@pytest.mark.parametrize("nested", [False, True])
def test_the_two_halves_of_the_devkit_are_put_together(tmp_path, lists, nested):
    rows = rows_below("")
    for half, file in (("cars_train", "cars_train_annos.mat"), ("cars_test", "cars_test_annos_withlabels.mat")):
        save_annotations(tmp_path / lists / file, rows, "fname")
        for path, _ in rows:
            jpeg(tmp_path / half / (half if nested else "") / path)
    found = cars196(str(tmp_path))
    expect_the_zero_shot_split(found)
    assert len(found) == 28
    assert found.ids[0] == ("cars_test/cars_test/000001.jpg" if nested else "cars_test/000001.jpg")


def test_half_a_devkit_says_what_is_lacking(tmp_path):
    save_annotations(tmp_path / "devkit" / "cars_train_annos.mat", rows_below(""), "fname")
    for path, _ in rows_below(""):
        jpeg(tmp_path / "cars_train" / path)
    with pytest.raises(DataError, match=r"cars_test_annos_withlabels\.mat is not in"):
        cars196(str(tmp_path))


@pytest.mark.parametrize("below", ["", "images", "train+test"])
def test_class_folders_get_the_official_numbers(tmp_path, below):
    for number in NUMBERS:
        name = official_names()[number].replace("/", "-")
        for image in range(4):
            half = {"train+test": ("train", "test")[image % 2]}.get(below, below)
            jpeg(tmp_path / half / name / f"{image}.jpg")
    found = cars196(str(tmp_path))
    expect_the_zero_shot_split(found)
    assert len(found) == 28
    assert "Ram C/V Cargo Van Minivan 2012" in found.class_names


def test_class_folders_get_the_numbers_of_a_list_of_names_beside_them(tmp_path):
    names = [f"car {number}" for number in range(196, 0, -1)]
    save_names(tmp_path / "cars_meta.mat", names)
    for name in ("car 1", "car 2", "car 195", "car 196"):
        for image in range(2):
            jpeg(tmp_path / "images" / name / f"{image}.jpg")
    found = cars196(str(tmp_path))
    assert found.class_names == ("car 196", "car 195", "car 2", "car 1")
    assert present(found.fixed_split).tolist() == ["train"] * 4 + ["test"] * 4


def test_a_class_folder_of_another_name_is_refused(tmp_path):
    for name in ("Acura RL Sedan 2012", "My own car"):
        jpeg(tmp_path / name / "1.jpg")
    with pytest.raises(DataError, match="folder 'My own car' in .* is none of the data set's classes"):
        cars196(str(tmp_path))


def test_lists_that_cannot_be_read_are_refused(tmp_path):
    file = tmp_path / "cars_annos.mat"
    file.write_bytes(b"nothing of the kind" * 20)
    with pytest.raises(DataError, match=r"cars_annos\.mat cannot be read as a MATLAB file"):
        cars196(str(tmp_path))
    savemat(file, {"other": [1]})
    with pytest.raises(DataError, match=r"has no variable 'annotations'; got \['other'\]"):
        cars196(str(tmp_path))
    save_annotations(file, [("1.jpg", 1)], "fname")
    with pytest.raises(DataError, match="the annotations have no field 'relative_im_path'"):
        cars196(str(tmp_path))
    save_annotations(file, [("1.jpg", 1), ("2.jpg", 197)], "relative_im_path")
    with pytest.raises(DataError, match=r"'2\.jpg' has a class that does not exist; got 197"):
        cars196(str(tmp_path))


def test_a_folder_of_something_else_says_what_was_looked_for(tmp_path):
    (tmp_path / "cars.zip").write_bytes(b"x")
    with pytest.raises(DataError) as caught:
        cars196(str(tmp_path))
    assert caught.value.message == (
        "cars196: looked for cars_annos.mat, cars_train_annos.mat with cars_test_annos_withlabels.mat, or class "
        f"folders such as AM General Hummer SUV 2000 in {tmp_path}, found the file 'cars.zip'. Set cars196=FOLDER to "
        "the folder of the data set."
    )
