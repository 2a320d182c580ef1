"""In-Shop Clothes Retrieval: queries, gallery, and what can be wrong with the list."""

import pytest
from PIL import Image

from unseen.core.errors import DataError
from unseen.data import split_catalogue
from unseen.data.sources.inshop import inshop

ROWS = [
    ("img/WOMEN/Dresses/id_00000002/02_1_front.jpg", "id_00000002", "train"),
    ("img/WOMEN/Dresses/id_00000002/02_2_side.jpg", "id_00000002", "train"),
    ("img/MEN/Denim/id_00000080/01_1_front.jpg", "id_00000080", "train"),
    ("img/MEN/Denim/id_00000080/01_2_side.jpg", "id_00000080", "train"),
    ("img/WOMEN/Blouses/id_00000001/02_1_front.jpg", "id_00000001", "query"),
    ("img/WOMEN/Blouses/id_00000001/02_2_side.jpg", "id_00000001", "gallery"),
    ("img/WOMEN/Skirts/id_00000003/02_1_front.jpg", "id_00000003", "query"),
    ("img/WOMEN/Skirts/id_00000003/02_2_side.jpg", "id_00000003", "query"),
    ("img/WOMEN/Skirts/id_00000003/02_3_back.jpg", "id_00000003", "gallery"),
]


def official(place, lists=".", images=".", rows=ROWS, stated=None):
    for path, _, _ in rows:
        (place / images / path).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (5, 4), "red").save(place / images / path)
    (place / lists).mkdir(parents=True, exist_ok=True)
    lines = [str(stated or len(rows)), "image_name item_id evaluation_status"]
    lines += [f"{path}{' ' * 12}{item} {status}   " for path, item, status in rows]
    (place / lists / "list_eval_partition.txt").write_text("\n".join(lines) + "\n")
    return place


OUTER = "In-shop Clothes Retrieval Benchmark"


@pytest.mark.parametrize(
    ("lists", "images"),
    [(".", "."), ("Eval", "."), ("Eval", "Img"), (f"{OUTER}/Eval", f"{OUTER}/Img"), (f"{OUTER}/Eval", OUTER)],
)
def test_test_items_are_parted_into_queries_and_gallery(tmp_path, lists, images):
    found = inshop(str(official(tmp_path, lists, images)))
    assert found.class_names == ("id_00000001", "id_00000002", "id_00000003", "id_00000080")
    split = split_catalogue(found, "given:validation=0")
    names = {part: sorted(found.ids[each] for each in getattr(split, part)) for part in ("train", "queries", "gallery")}
    for part, status in (("train", "train"), ("queries", "query"), ("gallery", "gallery")):
        assert names[part] == sorted(path for path, _, word in ROWS if word == status)
    assert found.notes == (
        "the train part has 4 images of 2 classes; the published one has 25,882 images of 3,997 classes",
        "the query part has 3 images of 2 classes; the published one has 14,218 images of 3,985 classes",
        "the gallery part has 2 images of 2 classes; the published one has 12,612 images of 3,985 classes",
    )


def test_a_list_that_is_cut_off_is_told(tmp_path):
    found = inshop(str(official(tmp_path, stated=52712)))
    assert found.notes[-1] == "list_eval_partition.txt says that it lists 52,712 images and lists 9"


def test_a_list_without_its_first_lines_is_read_too(tmp_path):
    official(tmp_path)
    file = tmp_path / "list_eval_partition.txt"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[2:]))
    assert len(inshop(str(tmp_path))) == 9


def test_another_status_and_another_number_of_columns_are_refused(tmp_path):
    official(tmp_path, rows=[*ROWS[:-1], (*ROWS[-1][:2], "val")])
    with pytest.raises(DataError, match="evaluation_status must be train, query or gallery; got 'val'"):
        inshop(str(tmp_path))
    (tmp_path / "list_eval_partition.txt").write_text("1\nimage_name item_id evaluation_status\nimg/1.jpg train\n")
    with pytest.raises(
        DataError, match=r"rows of image_name item_id evaluation_status are needed; got 'img/1\.jpg train'"
    ):
        inshop(str(tmp_path))


def test_a_folder_without_the_list_is_described(tmp_path):
    (tmp_path / "Img").mkdir()
    with pytest.raises(DataError, match=r"looked for list_eval_partition\.txt or Eval/.* found the folder 'Img'"):
        inshop(str(tmp_path))
