"""`unseen data check` and `unseen data info` as people type them."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from unseen.cli.app import app
from unseen.core.errors import UnseenError


@pytest.fixture(autouse=True)
def surroundings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "160")


def unseen(*arguments, code=0):
    """Standard output of a command, run in this process."""
    done = CliRunner().invoke(app, ["data", *arguments])
    assert done.exit_code == code, f"exit code {done.exit_code}\n{done.output}\n{done.exception!r}"
    return done.stdout


@pytest.fixture
def place(tmp_path):
    """Eight classes of three images in the folders of CUB-200, four on each side."""
    generator = np.random.default_rng(0)
    for number in (1, 2, 3, 4, 101, 102, 103, 104):
        folder = tmp_path / "birds" / f"{number:03}.Bird"
        folder.mkdir(parents=True)
        for image in range(3):
            pixels = generator.integers(0, 256, (6, 8 + image, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / f"{image}.png")
    return tmp_path


def test_a_check_of_whole_data_makes_a_copy_the_same_data(place, caplog):
    out = unseen("check", "--data", "cub200=birds", "--workers", "0")
    assert "fingerprint by content: " in out
    assert (
        "note on cub200: the train part has 12 images of 4 classes; the published one has 5,864 images" in caplog.text
    )
    shutil.copytree(place / "birds", place / "copy", copy_function=shutil.copy)
    prints = []
    for data in ("cub200=birds", "cub200=copy"):
        found = json.loads(unseen("check", "--data", data, "--json", "--workers", "0"))
        assert (found["files"], found["broken"], found["altered"], found["duplicates"]) == (24, [], [], [])
        prints.append(found["fingerprint"])
    assert prints[0] == prints[1]
    assert prints[0] in out


def test_a_check_says_when_it_gives_the_data_another_fingerprint(place):
    arguments = ["data", "check", "--data", "cub200=birds", "--workers", "0"]
    first, second = (CliRunner().invoke(app, arguments).stderr for _ in range(2))
    words = "the fingerprint is a new one: runs, studies and caches from before are of other data"
    assert words in first
    assert words not in second


def test_broken_files_and_duplicates_are_shown_and_the_code_is_2(place):
    birds = place / "birds"
    shutil.copy(birds / "001.Bird" / "0.png", birds / "101.Bird" / "0.png")
    (birds / "102.Bird" / "1.png").write_bytes(b"broken")
    out = unseen("check", "--data", "cub200=birds", "--workers", "0", code=2)
    assert "same pixels: 001.Bird/0.png = 101.Bird/0.png (two sides and two classes)" in out
    assert "102.Bird/1.png: it is not a JPEG, PNG, WEBP or BMP image" in out
    rows = {line.split("│")[1].strip(): line.split("│")[2].strip() for line in out.splitlines() if line[:1] == "│"}
    assert "fingerprint by sizes and times, as files are broken: " in out
    assert rows["intact images"] == "23"
    assert rows["broken files"] == "1"
    assert rows["such groups on two sides of the split"] == "1"


def test_info_prints_counts_and_sizes_and_draws_a_sheet(place, caplog):
    out = unseen("info", "--data", "cub200=birds", "--sheet", "sheet.png")
    rows = [line.replace("│", " ").split() for line in out.splitlines() if line[:1] == "│"]
    assert ["all", "24", "8", "3", "3", "3"] in rows
    assert ["train", "12", "4", "3", "3", "3"] in rows
    assert ["test", "12", "4", "3", "3", "3"] in rows
    assert ["width", "8", "9", "10"] in rows
    assert ["height", "6", "6", "6"] in rows
    assert "the test part has 12 images of 4 classes" in caplog.text
    with Image.open(place / "sheet.png") as sheet:
        assert sheet.width > 500


def test_info_for_programs_holds_the_notes(place):
    found = json.loads(unseen("info", "--data", "cub200=birds", "--split", "first:validation=0.5", "--json"))
    counts = {part["name"]: part["images"] for part in found["parts"]}
    assert counts == {"all": 24, "train": 6, "validation": 6, "test": 12}
    assert len(found["notes"]) == 2
    assert found["image_sizes"]["unreadable"] == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["check", "--data", "cubs=birds"], "unknown data 'cubs'"),
        (["info", "--data", "cub200=birds", "--sheet", "sheet.jpg"], "--sheet must end in .png"),
        (["info", "--data", "folder=birds", "--split", "given"], "birds defines no split"),
    ],
)
def test_a_mistake_is_refused_and_nothing_is_written(place, arguments, words):
    before = sorted(place.rglob("*"))
    done = CliRunner().invoke(app, ["data", *arguments])
    assert isinstance(done.exception, UnseenError)
    assert words in done.exception.message
    assert done.stdout == ""
    assert sorted(place.rglob("*")) == before


def test_a_wrong_folder_gets_one_sentence_and_the_code_2(place):
    arguments = ["data", "check", "--data", "cub200=nowhere"]
    command = [sys.executable, "-m", "unseen", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("unseen: cub200: looked for images.txt, ")
    assert done.stderr.count("\n") == 1
