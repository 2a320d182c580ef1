"""Stanford Online Products: lists, categories, and what can be wrong with them."""

import pytest
from PIL import Image

from tests.helpers.present import present
from unseen.core.errors import DataError
from unseen.data import split_catalogue
from unseen.data.sources.sop import sop

HEADER = "image_id class_id super_class_id path\n"
TRAIN = [(9, 1, "bicycle"), (10, 2, "cabinet")]
TEST = [(11319, 1, "bicycle"), (11320, 12, "toaster")]


def official(place, lists=".", images="."):
    for file, products in (("Ebay_train.txt", TRAIN), ("Ebay_test.txt", TEST)):
        rows = [(c, s, f"{name}_final/{c}_{image}.JPG") for c, s, name in products for image in range(2)]
        for _, _, path in rows:
            (place / images / path).parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (5, 4), "red").save(place / images / path)
        (place / lists).mkdir(parents=True, exist_ok=True)
        text = HEADER + "".join(f"{n} {c} {s} {path}\n" for n, (c, s, path) in enumerate(rows, 1))
        (place / lists / file).write_text(text)
    return place


@pytest.mark.parametrize(
    ("lists", "images"),
    [(".", "."), ("Stanford_Online_Products", "Stanford_Online_Products"), ("Info_Files", "images"), (".", "images")],
)
def test_products_are_classes_and_categories_their_groups(tmp_path, lists, images):
    found = sop(str(official(tmp_path, lists, images)))
    assert found.class_names == ("9", "10", "11319", "11320")
    assert found.class_groups == ("bicycle", "cabinet", "bicycle", "toaster")
    assert found.ids[0] == "bicycle_final/9_0.JPG"
    assert present(found.fixed_split).tolist() == ["train"] * 4 + ["test"] * 4
    assert found.notes == (
        "the train part has 4 images of 2 classes; the published one has 59,551 images of 11,318 classes",
        "the test part has 4 images of 2 classes; the published one has 60,502 images of 11,316 classes",
    )
    assert split_catalogue(found, "given:validation=0").classes == {"train": 2, "validation": 0, "test": 2}


def test_lists_without_a_header_are_read_too(tmp_path):
    official(tmp_path)
    file = tmp_path / "Ebay_train.txt"
    file.write_text(file.read_text().removeprefix(HEADER))
    assert len(sop(str(tmp_path))) == 8


def test_a_product_in_two_categories_is_refused(tmp_path):
    official(tmp_path)
    file = tmp_path / "Ebay_test.txt"
    file.write_text(file.read_text().replace("2 11319 1", "2 11319 3"))
    with pytest.raises(DataError, match="class 11319 is in the super-classes 1 and 3"):
        sop(str(tmp_path))


def test_a_product_on_both_sides_is_refused_by_the_split(tmp_path):
    official(tmp_path)
    file = tmp_path / "Ebay_test.txt"
    file.write_text(file.read_text().replace(" 11319 ", " 9 "))
    with pytest.raises(DataError, match="class '9' is on the train and on the test side"):
        split_catalogue(sop(str(tmp_path)), "given")


def test_a_folder_without_both_lists_is_refused(tmp_path):
    official(tmp_path)
    (tmp_path / "Ebay_test.txt").unlink()
    with pytest.raises(DataError) as caught:
        sop(str(tmp_path))
    assert caught.value.message.startswith(
        f"sop: looked for Ebay_train.txt and Ebay_test.txt in {tmp_path}, found 3 folders"
    )
    with pytest.raises(DataError, match="found no such folder"):
        sop(str(tmp_path / "none"))
