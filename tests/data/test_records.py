"""From records to catalogues and splits, and the check that finds broken images before a run."""

import numpy as np
import pytest
from PIL import Image

from unseen.core.errors import ConfigError, DataError
from unseen.data import load_catalogue, split_catalogue
from unseen.data.integrity import check_images


@pytest.fixture
def place(tmp_path):
    for name in "abcdef":
        (tmp_path / name).mkdir()
        for item in range(4):
            Image.new("RGB", (9, 9), (item, 0, 0)).save(tmp_path / name / f"{item}.png")
    return tmp_path


def test_a_record_and_its_text_give_the_same_catalogue_and_split(place):
    by_text = load_catalogue(f"folder={place}")
    by_record = load_catalogue({"name": "folder", "path": str(place)})
    assert by_text.fingerprint == by_record.fingerprint
    text, record = (
        "fraction:train=0.7,validation=0,seed=2",
        {"name": "fraction", "train": 0.7, "validation": 0, "seed": 2},
    )
    assert split_catalogue(by_text, text).fingerprint == split_catalogue(by_record, record).fingerprint


def test_mistakes_in_a_record_are_answered():
    with pytest.raises(ConfigError, match="unknown data 'foldr'; did you mean 'folder'"):
        load_catalogue("foldr=x")
    with pytest.raises(ConfigError, match="needs the setting 'path'"):
        load_catalogue("folder")
    with pytest.raises(ConfigError, match="small_classes has the wrong type"):
        load_catalogue("folder=x:small_classes=maybe")


@pytest.mark.parametrize("workers", [0, 2])
def test_whole_images_pass(place, workers, capsys):
    check_images(load_catalogue(f"folder={place}"), workers=workers)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("workers", [0, 2])
def test_broken_images_are_named_with_reasons_and_a_count_of_the_others(place, workers):
    for file in ("a/1.png", "b/0.png", "d/3.png", "e/2.png", "f/3.png"):
        (place / file).write_bytes((place / file).read_bytes()[:40])
    (place / "b" / "0.png").write_bytes(b"")
    found = load_catalogue(f"folder={place}")
    with pytest.raises(DataError) as caught:
        check_images(found, workers=workers, quiet=True)
    words = caught.value.message
    assert "5 image files are broken" in words
    assert f"cannot decode {place / 'a' / '1.png'}: " in words
    assert f"cannot decode {place / 'b' / '0.png'}: the file is empty" in words
    assert "; and 2 more. Repair or remove these files." in words
    assert str(place / "e") not in words
    check_images(found, np.flatnonzero(found.labels == 2), quiet=True)
    with pytest.raises(DataError, match="1 image file is broken"):
        check_images(found, [0, 1, 2], quiet=True)


def test_features_have_no_files_to_check(tmp_path):
    np.savez(tmp_path / "x.npz", features=np.zeros((4, 2)), labels=np.array([0, 0, 1, 1]))
    check_images(load_catalogue(f"features={tmp_path / 'x.npz'}"), workers=2)


def test_notes_on_data_are_logged_when_it_is_loaded(place, caplog):
    (place / "a" / "words.txt").write_text("x")
    found = load_catalogue(f"folder={place}")
    assert len(found.notes) == 1
    assert caplog.messages == [f"note on {place.name}: other files were ignored: 1 .txt"]
