"""Sources: content, its hash, and pictures to look at."""

import os
import pickle

import numpy as np
import pytest
from PIL import Image

from tests.helpers.present import present
from unseen.core.errors import DataError
from unseen.data.item_readers import FeatureArray, ImageFiles, ImagesInMemory


def write(path, colour):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8), colour).save(path)


def test_grey_and_colour_pixels_are_shown_as_rgb():
    grey = ImagesInMemory(np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4))
    assert len(grey) == 2
    assert grey.kind == "images in memory"
    assert grey.image(1).mode == "RGB"
    assert np.asarray(grey.image(1))[2, 3].tolist() == [23, 23, 23]
    colour = ImagesInMemory(np.arange(2 * 3 * 4 * 3, dtype=np.uint8).reshape(2, 3, 4, 3))
    assert np.array_equal(np.asarray(colour.image(1)), colour.pixels[1])


@pytest.mark.parametrize(
    "pixels",
    [
        np.zeros((2, 3, 4), np.float32),
        np.zeros((2, 3), np.uint8),
        np.zeros((2, 3, 3, 4), np.uint8),
        np.zeros(0, np.uint8),
    ],
)
def test_pixels_of_another_shape_or_type_are_refused(pixels):
    with pytest.raises(DataError, match="pixels must be uint8"):
        ImagesInMemory(pixels)


def test_the_hash_of_an_array_follows_every_value_its_shape_and_its_type():
    pixels = np.zeros((2, 6, 4), np.uint8)
    known = {ImagesInMemory(pixels).content_hash()}
    for position in ((0, 0, 0), (1, 5, 3)):
        changed = pixels.copy()
        changed[position] = 1
        known.add(ImagesInMemory(changed).content_hash())
    known.add(ImagesInMemory(pixels.reshape(2, 4, 6)).content_hash())
    known.add(FeatureArray(np.zeros((2, 24), np.uint8)).content_hash())
    known.add(FeatureArray(np.zeros((2, 12), np.float16)).content_hash())
    known.add(FeatureArray(np.zeros((2, 12), np.int16)).content_hash())
    assert len(known) == 7
    assert ImagesInMemory(pixels.copy(order="F")).content_hash() == ImagesInMemory(pixels).content_hash()


def test_files_are_read_below_their_root(tmp_path):
    write(tmp_path / "a" / "1.png", "red")
    write(tmp_path / "b" / "2.png", "blue")
    reader = ImageFiles(tmp_path, ("a/1.png", "b/2.png"))
    assert len(reader) == 2
    assert reader.image(1).getpixel((0, 0)) == (0, 0, 255)
    assert reader.path(0) == tmp_path / "a" / "1.png"
    with pytest.raises(DataError, match=r"c\.png cannot be read: No such file"):
        ImageFiles(tmp_path, ("c.png",))


def test_a_file_that_changes_in_size_or_time_or_goes_is_named(tmp_path):
    path = tmp_path / "1.png"
    write(path, "red")
    reader = ImageFiles(tmp_path, ("1.png",))
    reader.verify(0)
    before = reader.content_hash()
    status = os.stat(path)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    with pytest.raises(DataError, match=r"1\.png changed after the data was read"):
        reader.verify(0)
    assert ImageFiles(tmp_path, ("1.png",)).content_hash() != before
    path.write_bytes(path.read_bytes() + b"x")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(DataError, match="changed"):
        reader.verify(0)
    path.unlink()
    with pytest.raises(DataError, match="cannot be read"):
        reader.verify(0)


def test_a_source_of_files_travels_to_another_process_with_what_it_knew(tmp_path):
    write(tmp_path / "1.png", "red")
    reader = ImageFiles(tmp_path, ("1.png",))
    (tmp_path / "1.png").write_bytes(b"x")
    travelled = pickle.loads(pickle.dumps(reader))  # what a loader worker under spawn gets
    assert travelled.content_hash() == reader.content_hash()
    with pytest.raises(DataError, match="changed"):
        travelled.verify(0)


def test_features_show_their_picture_if_it_is_there_and_whole(tmp_path):
    write(tmp_path / "1.png", "red")
    (tmp_path / "broken.png").write_bytes(b"x")
    reader = FeatureArray(np.zeros((3, 2)), root=tmp_path, paths=("1.png", "broken.png", "gone.png"))
    assert present(reader.image(0)).getpixel((0, 0)) == (255, 0, 0)
    assert reader.image(1) is None
    assert reader.image(2) is None
    assert FeatureArray(np.zeros((3, 2))).image(0) is None


def test_features_that_are_no_table_of_numbers_are_refused():
    for wrong in (np.zeros(3), np.zeros((2, 2), complex), np.zeros((2, 2), bool)):
        with pytest.raises(DataError, match="numbers of shape"):
            FeatureArray(wrong)
