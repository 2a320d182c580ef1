"""A CSV table of images: the columns it may have, and a numbered sentence for whatever is wrong."""

import pytest
from PIL import Image

from tests.helpers.present import image_of, present
from unseen.core.errors import DataError
from unseen.data import load_catalogue
from unseen.data.sources.table import table

GOOD = "path,label\na1.png,a\na2.png,a\nb1.png,b\nb2.png,b\n"


@pytest.fixture
def place(tmp_path):
    for name in ("a1", "a2", "b1", "b2", "c1", "c2"):
        Image.new("RGB", (4, 4), (ord(name[0]), int(name[1]), 0)).save(tmp_path / f"{name}.png")
    return tmp_path


def write(place, text, encoding="utf-8"):
    file = place / "table.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode(encoding))
    return str(file)


def refusal(place, text, **settings):
    with pytest.raises(DataError) as caught:
        table(write(place, text), **settings)
    assert caught.value.message.startswith(str(place / "table.csv"))
    assert "\n" not in caught.value.message
    return caught.value.message.removeprefix(str(place / "table.csv"))


def test_path_and_label_are_enough(place):
    found = table(write(place, GOOD))
    assert found.class_names == ("a", "b")
    assert found.labels.tolist() == [0, 0, 1, 1]
    assert found.ids == ("a1.png", "a2.png", "b1.png", "b2.png")
    assert found.name == "table"
    assert (found.fixed_split, found.is_query, found.is_gallery, found.class_groups) == (None, None, None, None)
    assert found.notes == ()
    assert image_of(found, 3).getpixel((0, 0)) == (ord("b"), 2, 0)


def test_a_byte_order_mark_other_line_ends_and_quotes_are_read(place):
    text = '"label","path"\r\n"owl, barn",a1.png\r\n"owl, barn",a2.png\r\n\r\nb,b1.png\r\nb,./b2.png\r\n'
    found = table(write(place, text, "utf-8-sig"))
    assert found.class_names == ("b", "owl, barn")
    assert found.ids[-1] == "b2.png"


def test_all_columns_of_open_metric_learning_are_understood(place):
    text = (
        "label,path,split,is_query,is_gallery,category,x_1\n"
        "1,a1.png,train,,,birds,0\n1,a2.png,train,,,birds,0\n"
        "10,b1.png,validation,True,False,cars,0\n10,b2.png,validation,no,YES,cars,0\n"
        "9,c1.png,validation,1,1,birds,0\n9,c2.png,validation,0,1.0,birds,0\n"
    )
    found = table(write(place, text))
    assert found.class_names == ("1", "9", "10")
    assert found.class_groups == ("birds", "birds", "cars")
    assert present(found.is_query).tolist() == [False, False, True, False, True, False]
    assert present(found.is_gallery).tolist() == [False, False, False, True, True, True]
    assert present(found.fixed_split).tolist() == ["train"] * 2 + ["test"] * 4
    assert found.notes == (
        "columns ignored: x_1",
        "the table has no test rows, so its validation rows are the test side",
    )


def test_three_sides_stay_three_sides(place):
    rows = zip(["a1", "a2", "b1", "b2", "c1", "c2"], ["train"] * 2 + ["validation"] * 2 + ["test"] * 2, strict=True)
    found = table(write(place, "path,label,split\n" + "".join(f"{n}.png,{n[0]},{s}\n" for n, s in rows)))
    assert present(found.fixed_split).tolist() == ["train"] * 2 + ["validation"] * 2 + ["test"] * 2


def test_columns_that_are_empty_say_nothing(place):
    text = "path,label,split,is_query,category\na1.png,a,,,\na2.png,a,,,\nb1.png,b,,,\nb2.png,b,,,\n"
    found = table(write(place, text))
    assert (found.fixed_split, found.is_query, found.class_groups) == (None, None, None)


def test_paths_are_relative_to_a_root_if_one_is_given(place):
    (place / "elsewhere").mkdir()
    file = place / "elsewhere" / "table.csv"
    file.write_text(GOOD)
    with pytest.raises(DataError, match=r"row 2: no file .*a1\.png \(and 3 other rows\)"):
        table(str(file))
    assert len(table(str(file), root=str(place))) == 4
    assert len(load_catalogue({"name": "table", "path": str(file), "root": str(place)})) == 4


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", " is empty. A CSV with the header path,label is needed"),
        ("path,label\n", " has a header and no rows"),
        ("path,labels\na1.png,a\n", " has no column 'label'; did you mean 'labels'?"),
        ("label\na\n", " has no column 'path'"),
        ("path;label\na1.png;a\n", "The header must have path,label separated by commas"),
        ("path,label,label\na1.png,a,a\n", " has the column 'label' twice"),
        (GOOD + "c1.png,\n", ", row 6: the label is empty"),
        (GOOD + ",c\n", ", row 6: the path is empty"),
        (GOOD + "c1.png\n", ", row 6: the header has 2 columns, the row has 1"),
        (GOOD + "c1.png,c,c\n", ", row 6: the header has 2 columns, the row has 3"),
        (GOOD + "c9.png,c\n", ", row 6: no file "),
        (GOOD + "a1.png,b\n", ", rows 2 and 6: 'a1.png' has two values of label, 'a' and 'b'"),
        (GOOD + "c1.png,c\n", ": class 'c' has a single item"),
        (GOOD + 'c1.png,"c\n', ", row 6: unexpected end of data"),
        ("path,label,split\na1.png,a,dev\n", ", row 2: split must be train, validation or test; got 'dev'"),
        ("path,label,is_query\na1.png,a,maybe\n", ", row 2: is_query must be true, false, 1, 0, yes, no or empty"),
        ("path,label,split\na1.png,a,test\na2.png,a,\nb1.png,b,test\nb2.png,b,test\n", ", row 3: the split is empty"),
        (
            "path,label,category\na1.png,a,x\na2.png,a,y\nb1.png,b,y\nb2.png,b,y\n",
            ": class 'a' has items of two groups",
        ),
        ("path,label\na1.png,a\na2.png,a\n", ": at least 2 classes are needed; got 1"),
        ("path,label\na1.png,a\na2.png,é\n".encode("latin-1"), ", row 3: the text is not UTF-8"),
        ("path,label\na1.png,a\n".encode("utf-16"), ", row 1: the text is not UTF-8"),
        (GOOD + "c\0.png,c\n", ", row 6: "),
    ],
)
def test_what_is_wrong_is_said_with_its_row(place, text, words):
    assert words in refusal(place, text)


def test_a_row_that_stands_twice_counts_once(place):
    found = table(write(place, GOOD + "a1.png,a\n./a1.png,a\n"))
    assert len(found) == 4
    assert found.notes == ("repeated rows left out: 2",)


def test_small_classes_can_be_dropped_or_kept(place):
    text = "path,label,category\nc1.png,c,z\na1.png,a,x\na2.png,a,x\nb1.png,b,y\nb2.png,b,y\n"
    dropped = table(write(place, text), small_classes="drop")
    assert dropped.class_names == ("a", "b")
    assert dropped.class_groups == ("x", "y")
    assert dropped.ids == ("a1.png", "a2.png", "b1.png", "b2.png")
    assert image_of(dropped, 0).getpixel((0, 0)) == (ord("a"), 1, 0)
    assert len(table(write(place, text), small_classes="keep")) == 5


def test_a_missing_table_is_named(tmp_path):
    with pytest.raises(DataError, match=r"no file .*none\.csv"):
        table(str(tmp_path / "none.csv"))
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        table(str(tmp_path))
