"""The contact sheet shows images of classes, each in its row."""

import numpy as np
import pytest
from PIL import Image

from unseen.core.errors import ConfigError, DataError
from unseen.data.contact_sheet import contact_sheet, evenly_spaced
from unseen.data.sources.features import features
from unseen.data.sources.folder import folder

COLOURS = {"a": (255, 0, 0), "b": (0, 128, 0), "c": (0, 0, 255)}


@pytest.fixture
def place(tmp_path):
    for name, colour in COLOURS.items():
        (tmp_path / name).mkdir()
        for image in range(4):
            Image.new("RGB", (300, 200), colour).save(tmp_path / name / f"{image}.png")
    return tmp_path


def colours_in(sheet, top, bottom):
    return {colour for _, colour in sheet.crop((0, top, sheet.width, bottom)).getcolors(1 << 24)}


def test_each_class_has_a_row(place):
    sheet = contact_sheet(folder(str(place)), classes=3, per_class=2)
    height = sheet.height // 3
    for row, colour in enumerate(COLOURS.values()):
        seen = colours_in(sheet, row * height, (row + 1) * height - 4)
        assert seen & set(COLOURS.values()) == {colour}


def test_classes_and_images_are_spread_evenly_over_all():
    assert evenly_spaced(range(100), 3) == [0, 50, 99]
    assert evenly_spaced([7], 5) == [7]
    for count in range(1, 30):
        chosen = evenly_spaced(range(17), count)
        assert len(set(chosen)) == min(count, 17)
        assert chosen == sorted(chosen)


def test_a_broken_image_leaves_its_cell_empty(place):
    for image in range(4):
        (place / "b" / f"{image}.png").write_bytes(b"broken")
    sheet = contact_sheet(folder(str(place)), classes=3, per_class=4)
    seen = colours_in(sheet, 0, sheet.height)
    assert COLOURS["a"] in seen
    assert COLOURS["b"] not in seen


def test_features_without_pictures_and_no_classes_are_refused(place):
    np.savez(place / "x.npz", features=np.eye(4), labels=np.array([0, 0, 1, 1]))
    with pytest.raises(DataError, match="there are no pictures to show"):
        contact_sheet(features(str(place / "x.npz")))
    with pytest.raises(ConfigError, match="contact_sheet: classes must be"):
        contact_sheet(folder(str(place)), classes=0)
