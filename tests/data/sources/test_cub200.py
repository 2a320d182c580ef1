"""CUB-200-2011 from the folders people have."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.helpers.present import image_of, present
from unseen.core.errors import DataError
from unseen.data import load_catalogue, split_catalogue
from unseen.data.sources.cub200 import cub200

REAL = Path(__file__).resolve().parents[4] / "shared" / "data" / "cub160"
CLASSES = {
    2: "002.Laysan_Albatross",
    100: "100.Brown_Pelican",
    101: "101.White_Pelican",
    200: "200.Common_Yellowthroat",
}


def official(place, images="images"):
    """Lists in the official form and order, with two images a class, of four of the 200 classes."""
    place.mkdir(parents=True, exist_ok=True)
    rows = [
        (f"{name}/{name[4:]}_{image}.jpg", number) for number, name in CLASSES.items() for image in ("0046", "0009")
    ]
    for path, number in rows:
        (place / images / path).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (5, 4), (number, 0, 0)).save(place / images / path)
    (place / "images.txt").write_text("".join(f"{n} {path}\n" for n, (path, _) in enumerate(rows, 1)))
    (place / "image_class_labels.txt").write_text("".join(f"{n} {number}\n" for n, (_, number) in enumerate(rows, 1)))
    (place / "classes.txt").write_text("".join(f"{number} {name}\n" for number, name in CLASSES.items()))
    # The split of the classification task, in which every class stands on both sides.
    (place / "train_test_split.txt").write_text("".join(f"{n} {n % 2}\n" for n in range(1, len(rows) + 1)))
    return place


def test_the_official_layout_gives_classes_by_number_and_the_zero_shot_split(tmp_path):
    found = cub200(str(official(tmp_path)))
    assert found.name == "cub200"
    assert found.class_names == tuple(CLASSES.values())
    assert found.ids[:2] == (
        "002.Laysan_Albatross/Laysan_Albatross_0009.jpg",
        "002.Laysan_Albatross/Laysan_Albatross_0046.jpg",
    )
    assert present(found.fixed_split).tolist() == ["train"] * 4 + ["test"] * 4
    assert image_of(found, 0).size == (5, 4)
    split = split_catalogue(found, "given:validation=0")
    assert split.counts()["train"] == {"images": 4, "classes": 2}


def test_counts_that_differ_from_the_papers_are_told_and_logged(tmp_path, caplog):
    found = load_catalogue(f"cub200={official(tmp_path)}")
    assert found.notes == (
        "the train part has 4 images of 2 classes; the published one has 5,864 images of 100 classes",
        "the test part has 4 images of 2 classes; the published one has 5,924 images of 100 classes",
    )
    assert caplog.messages == [f"note on cub200: {note}" for note in found.notes]


def test_the_same_data_in_another_layout_is_the_same_catalogue(tmp_path):
    one = cub200(str(official(tmp_path / "CUB_200_2011")))
    around = cub200(str(tmp_path))
    inside = cub200(str(tmp_path / "CUB_200_2011" / "images"))
    for name in ("images.txt", "image_class_labels.txt", "classes.txt"):
        (tmp_path / "CUB_200_2011" / name).unlink()
    copies = [cub200(str(tmp_path)), cub200(str(tmp_path / "CUB_200_2011"))]
    for other in (around, inside, *copies):
        assert other.ids == one.ids
        assert present(other.fixed_split).tolist() == present(one.fixed_split).tolist()
        assert other.fingerprint == one.fingerprint


def test_a_class_is_named_by_its_folder_however_deep_its_images_lie(tmp_path):
    for half, name in (("train", "001.A"), ("test", "001.A"), ("train", "150.B"), ("test", "150.B")):
        (tmp_path / half / name / "more").mkdir(parents=True)
        Image.new("RGB", (5, 4), "red").save(tmp_path / half / name / "more" / "1.jpg")
    found = cub200(str(tmp_path))
    assert found.class_names == ("001.A", "150.B")
    assert present(found.fixed_split).tolist() == ["train", "train", "test", "test"]


def test_images_may_lie_beside_the_folder_of_the_lists(tmp_path):
    assert len(cub200(str(official(tmp_path / "CUB_200_2011", images="../images")))) == 8


def test_lists_that_lack_or_contradict_are_refused(tmp_path):
    place = official(tmp_path)
    (place / "classes.txt").write_text("2 002.Laysan_Albatross\n")
    with pytest.raises(DataError, match=r"class 100 of image_class_labels\.txt has no name"):
        cub200(str(place))
    (place / "image_class_labels.txt").write_text("1 2\n")
    with pytest.raises(DataError, match="image 2 is in only one of"):
        cub200(str(place))
    (place / "classes.txt").unlink()
    with pytest.raises(DataError, match=r"has images\.txt and lacks classes\.txt"):
        cub200(str(place))


def test_a_missing_image_is_named(tmp_path):
    place = official(tmp_path)
    (place / "images" / "101.White_Pelican" / "White_Pelican_0009.jpg").unlink()
    with pytest.raises(DataError, match=r"1 of 8 listed images are not below .*: image '101\.White_Pelican/White_P"):
        cub200(str(place))


def test_a_folder_of_something_else_is_described(tmp_path):
    (tmp_path / "wren").mkdir()
    with pytest.raises(DataError) as caught:
        cub200(str(tmp_path))
    assert caught.value.message == (
        "cub200: looked for images.txt, image_class_labels.txt, classes.txt or class folders such as "
        f"001.Black_footed_Albatross in {tmp_path}, found the folder 'wren'. Set cub200=FOLDER to "
        "the folder of the data set."
    )


@pytest.mark.skipif(not REAL.is_dir(), reason="the shared data is not here")
def test_the_real_data_has_the_published_counts():
    found = load_catalogue(f"cub200={REAL}")
    assert found.notes == ()
    assert (np.count_nonzero(found.fixed_split == "train"), np.count_nonzero(found.fixed_split == "test")) == (
        5864,
        5924,
    )
    split = split_catalogue(found, "given:validation=0.1")
    assert split.classes == {"train": 90, "validation": 10, "test": 100}
    assert split.fingerprint == split_catalogue(found, "given:validation=0.1").fingerprint
