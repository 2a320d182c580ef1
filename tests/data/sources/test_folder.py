"""A folder of class folders, and every way in which it can be something else."""

import os

import numpy as np
import pytest
from PIL import Image

from tests.helpers.present import image_of
from unseen.core.errors import DataError
from unseen.data import load_catalogue
from unseen.data.sources.folder import folder, unlabeled_images


def fill(root, files):
    for position, file in enumerate(files):
        path = root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix.lower() in (".png", ".jpg", ".jpeg", ".webp", ".bmp"):
            Image.new("RGB", (4, 4), (position, 0, 0)).save(path)
        else:
            path.write_text("words")
    return str(root)


def refusal(path, **settings):
    with pytest.raises(DataError) as caught:
        folder(str(path), **settings)
    assert "\n" not in caught.value.message
    return caught.value.message


def test_each_sub_folder_is_a_class_in_sorted_order(tmp_path):
    files = ["wren/b.png", "wren/a.jpg", "crow/deep/er/1.PNG", "crow/2.jpeg", "owl/1.webp", "owl/2.bmp"]
    found = folder(fill(tmp_path, files))
    assert found.class_names == ("crow", "owl", "wren")
    assert found.ids == ("crow/2.jpeg", "crow/deep/er/1.PNG", "owl/1.webp", "owl/2.bmp", "wren/a.jpg", "wren/b.png")
    assert found.labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert found.name == tmp_path.name
    assert found.notes == ()
    assert found.reader.kind == "image files"
    assert image_of(found, 1).getpixel((0, 0)) == (2, 0, 0)


def test_hidden_files_are_ignored_and_others_are_counted(tmp_path):
    fill(tmp_path, ["a/1.png", "a/2.png", "b/1.png", "b/2.png", "b/notes.txt", "b/moving.gif", "b/README", "loose.png"])
    fill(tmp_path, [".hidden/1.png", "a/.hidden.png", "a/.cache/3.png", "list.txt"])
    found = folder(str(tmp_path))
    assert len(found) == 4
    assert found.notes == (
        "other files were ignored: 1 without suffix, 1 .gif, 1 .txt",
        "images outside of any sub-folder were ignored: 1",
    )


def test_class_folders_of_whole_numbers_are_in_the_order_of_their_values(tmp_path):
    found = folder(fill(tmp_path, [f"{name}/{image}.png" for name in (10, 9) for image in (1, 2)]))
    assert found.class_names == ("9", "10")
    assert [found.class_names[label] for label in found.labels] == [path.split("/")[0] for path in found.ids]


def test_a_name_that_is_not_text_can_still_be_written_down(tmp_path):
    fill(tmp_path, ["a/1.png", "a/2.png", "b/1.png"])
    os.rename(os.fsencode(tmp_path / "b"), os.fsencode(tmp_path) + b"/caf\xe9")
    found = folder(str(tmp_path), small_classes="keep")
    assert found.class_names == ("a", "caf\\xe9")
    assert len(found.fingerprint) == 16
    assert image_of(found, 2).size == (4, 4)


def test_what_is_no_folder_of_class_folders_is_refused(tmp_path):
    assert (
        refusal(tmp_path / "gone")
        == f"no folder {tmp_path / 'gone'}. A folder with one sub-folder of images per class is needed."
    )
    (tmp_path / "file").write_text("x")
    assert "is a file" in refusal(tmp_path / "file")
    (tmp_path / "empty").mkdir()
    assert "is empty" in refusal(tmp_path / "empty")
    fill(tmp_path / "flat", ["1.png", "2.png"])
    assert "holds 2 images '1.png', '2.png' directly, so no image has a class" in refusal(tmp_path / "flat")
    fill(tmp_path / "texts", ["1.txt"])
    assert "has no sub-folders" in refusal(tmp_path / "texts")
    fill(tmp_path / "one", ["a/1.png", "a/2.png"])
    assert "at least 2 classes are needed; got 1" in refusal(tmp_path / "one")
    fill(tmp_path / "bare", ["a/1.png", "a/2.png", "b/notes.txt"])
    assert f"{tmp_path / 'bare' / 'b'} holds no image" in refusal(tmp_path / "bare")


def test_a_class_of_a_single_image_is_named_with_what_would_do(tmp_path):
    fill(tmp_path, ["a/1.png", "a/2.png", "b/1.png", "b/2.png", "lonely/1.png"])
    words = refusal(tmp_path)
    assert "class 'lonely' has a single item" in words
    assert "small_classes=drop" in words
    assert folder(str(tmp_path), small_classes="drop").class_names == ("a", "b")
    assert folder(str(tmp_path), small_classes="keep").class_names == ("a", "b", "lonely")
    assert load_catalogue(f"folder={tmp_path}:small_classes=drop").notes == (
        "classes left out because they have a single item: 1",
    )


def test_the_fingerprint_follows_the_files(tmp_path):
    fill(tmp_path, ["a/1.png", "a/2.png", "b/1.png", "b/2.png"])
    before = folder(str(tmp_path)).fingerprint
    assert folder(str(tmp_path)).fingerprint == before
    os.utime(tmp_path / "a" / "1.png", ns=(0, 0))
    assert folder(str(tmp_path)).fingerprint != before


def test_links_that_lead_in_a_circle_do_no_harm(tmp_path):
    fill(tmp_path, ["a/1.png", "a/2.png", "b/1.png", "b/2.png"])
    (tmp_path / "a" / "round").symlink_to(tmp_path / "a")
    assert np.bincount(folder(str(tmp_path)).labels).tolist() == [2, 2]


def test_images_without_classes_are_found_wherever_they_lie(tmp_path):
    fill(tmp_path, ["1.png", "a/2.png", "a/b/3.png", "a/notes.txt", ".hidden/4.png"])
    found = unlabeled_images(str(tmp_path))
    assert found.ids == ("1.png", "a/2.png", "a/b/3.png")
    assert found.labels.tolist() == [0, 0, 0]
    with pytest.raises(DataError, match="no folder"):
        unlabeled_images(str(tmp_path / "nowhere"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="holds no image"):
        unlabeled_images(str(tmp_path / "empty"))
