"""Glyphs: enough classes and samples, none twice, the same bytes every time, and a cache that cannot do harm."""

import importlib
import json
import logging
import os
import subprocess
import sys
from collections import Counter
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.helpers.present import image_of, pixels_of, present
from unseen.core.config import build, hash_of
from unseen.core.errors import ConfigError, DataError
from unseen.core.registry import data
from unseen.data.sources._glyph_rendering import (
    COMPARED_SIZE,
    FONTS,
    LOOK_ALIKE,
    MARGIN,
    GlyphPainter,
    RenderSettings,
    first_of_look_alikes,
    font_paths,
    look_alikes,
    render,
)
from unseen.data.sources.glyphs import glyphs

# The package offers the function under the name of its module.
module = importlib.import_module("unseen.data.sources.glyphs")

FEW = {letter: ["DejaVuSans", "DejaVuSerif-Italic", "STIXGeneral"] for letter in "AbЖ"}


@pytest.fixture(scope="session")
def catalogue(tmp_path_factory):
    return glyphs(cache=str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="session")
def upright(tmp_path_factory):
    """All classes chosen a second time, drawn without rotation and shift."""
    return glyphs(rotation=0, shift=0, cache=str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def few(monkeypatch):
    """Three classes only, so that rendering takes no time."""
    monkeypatch.setattr(module, "choose_classes", lambda paths: FEW)


@pytest.fixture
def rendered(monkeypatch):
    """Counts the calls of `render`."""
    calls: list[int] = []

    def counted(*arguments, **settings):
        calls.append(1)
        return render(*arguments, **settings)

    monkeypatch.setattr(module, "render", counted)
    return calls


def classes_of(catalogue):
    classes: dict[str, list[str]] = {}
    for name in catalogue.ids:
        code, font = name.split(" ")
        classes.setdefault(chr(int(code.removeprefix("U+"), 16)), []).append(font)
    return classes


# What the data set is


def test_there_are_a_thousand_classes_with_twelve_samples(catalogue):
    assert len(catalogue.class_names) >= 1000
    assert np.bincount(catalogue.labels).min() >= 12
    assert len(set(catalogue.ids)) == len(catalogue)
    assert pixels_of(catalogue).shape == (len(catalogue), 32, 32)
    assert pixels_of(catalogue).dtype == np.uint8


def test_classes_and_samples_have_readable_names(catalogue):
    label = catalogue.class_names.index("Ж CYRILLIC CAPITAL LETTER ZHE")
    assert catalogue.class_groups[label] == "Cyrillic"
    ids = [name for name, of in zip(catalogue.ids, catalogue.labels, strict=True) if of == label]
    assert "U+0416 DejaVuSans-Bold" in ids
    assert all(name.startswith("U+0416 ") for name in ids)


def test_groups_are_the_five_scripts(catalogue):
    counts = Counter(catalogue.class_groups)
    assert set(counts) == {"Latin", "Greek", "Cyrillic", "Armenian", "Georgian"}
    assert min(counts.values()) >= 40


def test_only_typefaces_that_were_looked_at_are_samples(catalogue):
    classes = classes_of(catalogue)
    fonts = {font for of_class in classes.values() for font in of_class}
    assert fonts == set(FONTS)
    assert not any(font.startswith("LastResort") or font in ("cmex10", "cmsy10") for font in fonts)
    # Computer Modern has ligatures in the places of À to Ä.
    assert not any(font.startswith("cm") for font in classes["À"])
    assert "cmr10" in classes["A"]


def test_every_picture_has_ink_on_a_black_ground(catalogue):
    pixels = pixels_of(catalogue)
    assert pixels.max(axis=(1, 2)).min() > 64
    assert np.median(pixels, axis=(1, 2)).max() == 0


def test_letters_that_look_alike_across_scripts_are_one_class(catalogue):
    letters = classes_of(catalogue)
    for group in ("AΑА", "OΟОՕ", "oοоօ", "cсϲ", "jј", "HΗН", "ËЁ"):
        assert [letter for letter in group if letter in letters] == [group[0]]
    for different in ("oO", "cC", "sS", "iı", "bd", "EÉ", "ЖШ"):
        assert set(different) <= set(letters)


def test_no_two_classes_look_alike(upright):
    # The rule once more, from the finished pictures, in float64 and with all their levels of grey.
    vectors = pixels_of(upright).reshape(len(upright), -1).astype(np.float64)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    fonts = np.array([name.split(" ")[1] for name in upright.ids])
    count = len(upright.class_names)
    total, shared = np.zeros((count, count)), np.zeros((count, count))
    for font in FONTS:
        labels, rows = upright.labels[fonts == font], vectors[fonts == font]
        total[np.ix_(labels, labels)] += rows @ rows.T
        shared[np.ix_(labels, labels)] += 1
    mean = total / np.maximum(shared, 1)
    np.fill_diagonal(mean, 0)
    # 16 levels of grey instead of 256 move a mean by less than this.
    assert mean.max() < LOOK_ALIKE + 0.003


def test_no_two_samples_of_a_class_are_one_picture(upright):
    pictures = {(label, picture.tobytes()) for label, picture in zip(upright.labels, pixels_of(upright), strict=True)}
    assert len(pictures) == len(upright)


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_raw_pixels_find_about_three_in_ten(catalogue, share):
    classes = np.random.default_rng(0).permutation(len(catalogue.class_names))
    chosen = np.isin(catalogue.labels, classes[: int(share * len(classes))])
    labels = catalogue.labels[chosen]
    vectors = pixels_of(catalogue)[chosen].reshape(len(labels), -1).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    queries = np.random.default_rng(1).permutation(len(labels))[:1000]
    similarity = vectors[queries] @ vectors.T
    similarity[np.arange(len(queries)), queries] = -1
    recall = (labels[similarity.argmax(axis=1)] == labels[queries]).mean()
    # 0.25 and 0.35 with all queries; a thousand queries have a standard error of 0.015
    assert 0.21 < recall < 0.39


# The same every time


def test_the_same_classes_and_samples_are_chosen_every_time_and_for_every_setting(catalogue, upright):
    assert catalogue.ids == upright.ids
    assert catalogue.class_names == upright.class_names
    assert catalogue.fingerprint != upright.fingerprint


def test_a_picture_depends_on_seed_character_and_typeface_only(catalogue):
    classes = classes_of(catalogue)
    some = {letter: classes[letter][::-5] for letter in list(classes)[::20]}
    again, other = (render(font_paths(), some, RenderSettings(32, seed, 10.0, 0.044)) for seed in (0, 1))
    places = [catalogue.ids.index(f"U+{ord(letter):04X} {font}") for letter in some for font in some[letter]]
    assert np.array_equal(again, pixels_of(catalogue)[places])
    assert (again != other).any(axis=(1, 2)).all()


def test_two_processes_on_one_empty_cache_both_end_right(tmp_path):
    program = (
        "import sys, importlib\n"
        "module = importlib.import_module('unseen.data.sources.glyphs')\n"
        f"module.choose_classes = lambda paths: {FEW!r}\n"
        f"print(module.glyphs(cache={str(tmp_path / 'cache')!r}).fingerprint, 'torchvision' in sys.modules)\n"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONUTF8": "1"},
        )
        for hash_seed in ("1", "2")
    ]
    answers = {process.communicate(timeout=120)[0].strip() for process in processes}
    assert len(answers) == 1
    assert answers.pop().endswith(" False")
    assert sorted(path.suffix for path in (tmp_path / "cache").iterdir()) == [".json", ".npy"]


@pytest.mark.parametrize("size", [8, 28, 32, 64])
def test_pictures_come_in_the_size_asked_for(few, tmp_path, size):
    catalogue = glyphs(size=size, cache=str(tmp_path))
    assert pixels_of(catalogue).shape == (9, size, size)
    assert image_of(catalogue, 0).size == (size, size)
    assert pixels_of(catalogue).max(axis=(1, 2)).min() > 64


def test_fewer_samples_a_class_are_a_keyed_choice_of_all(catalogue, few, tmp_path, rendered):
    everything = glyphs(cache=str(tmp_path))
    fewer = glyphs(cache=str(tmp_path), max_per_class=2)
    assert len(rendered) == 1
    assert np.bincount(fewer.labels).tolist() == [2, 2, 2]
    places = [everything.ids.index(name) for name in fewer.ids]
    assert np.array_equal(pixels_of(fewer), pixels_of(everything)[places])
    assert places == sorted(places)
    assert glyphs(cache=str(tmp_path), max_per_class=99).ids == everything.ids
    choices = {glyphs(cache=str(tmp_path), max_per_class=2, seed=seed).ids for seed in range(5)}
    assert len(choices) > 1


# Drawing


def test_a_letter_that_is_not_moved_is_the_canvas_made_smaller():
    pen = GlyphPainter(font_paths()["DejaVuSerif"], 32)
    canvas = pen.draw("g")
    assert np.array_equal(pen.move(canvas, 0, 0, 0), np.asarray(canvas.reduce(pen.oversampling)))


def test_a_shift_moves_the_centre_of_the_ink_by_its_share():
    pen = GlyphPainter(font_paths()["DejaVuSans"], 64)

    def centre(picture):
        rows, columns = np.indices(picture.shape)
        return np.array([(rows * picture).sum(), (columns * picture).sum()]) / picture.sum()

    canvas = pen.draw("o")
    still, moved = (centre(pen.move(canvas, 0, *shift).astype(float)) for shift in ((0, 0), (0.125, -0.0625)))
    assert np.allclose(moved - still, [-4, 8], atol=0.05)  # down, right, in pixels; grey levels are rounded


def test_a_quarter_turn_is_the_quarter_turn_of_the_array():
    pen = GlyphPainter(font_paths()["DejaVuSans"], 32)
    canvas = pen.draw("F")
    expected = np.asarray(canvas.transpose(Image.Transpose.ROTATE_90).reduce(pen.oversampling)).astype(int)
    assert np.abs(pen.move(canvas, 90, 0, 0).astype(int) - expected).max() <= 1


@pytest.mark.parametrize("letter", ["Ǆ", "Ấ", "Ϣ", "Щ", "ǻ", "ᾯ", "j", "o"])
@pytest.mark.parametrize("font", ["DejaVuSans", "DejaVuSerif-BoldItalic"])
def test_no_letter_is_cut_off(letter, font):
    canvas = GlyphPainter(font_paths()[font], 32).draw(letter)
    left, top, right, bottom = present(canvas.getbbox())
    margin = int(MARGIN * canvas.width)
    assert margin <= min(left, top)
    assert max(right, bottom) <= canvas.width - margin
    assert 0 <= canvas.width - left - right <= 1


# Look-alikes


def test_look_alikes_are_those_of_the_loops():
    generator = np.random.default_rng(0)
    pictures = generator.integers(0, 256, (4, 9, 25), dtype=np.uint8)
    pictures[:, 5] = pictures[:, 2]
    pictures[:3, 7] = pictures[:3, 1]
    present = generator.random((4, 9)) < 0.7
    present[:, [1, 2, 5, 7]] = True
    present[:, 8] = False
    expected = np.zeros((9, 9), bool)
    for one, other in combinations(range(9), 2):
        cosines = []
        for font in range(4):
            if present[font, one] and present[font, other]:
                left, right = (pictures[font, place].astype(int) // 16 for place in (one, other))
                cosines.append(left @ right / np.sqrt((left @ left) * (right @ right)))
        expected[one, other] = expected[other, one] = bool(cosines) and np.mean(cosines) >= 0.9
    assert expected[2, 5]
    assert expected[1, 7]
    assert not expected[8].any()
    assert np.array_equal(look_alikes(pictures, present, 0.9), expected)


def test_of_look_alikes_the_first_stays_and_whatever_went_looks_like_one_that_stayed():
    generator = np.random.default_rng(1)
    for _ in range(50):
        alike = np.triu(generator.random((12, 12)) < 0.2, 1)
        alike |= alike.T
        kept = first_of_look_alikes(alike)
        assert kept[0] == 0
        assert not alike[np.ix_(kept, kept)].any()
        assert all(alike[gone, [stayed for stayed in kept if stayed < gone]].any() for gone in {*range(12)} - {*kept})


def test_comparisons_are_exact_sums_in_float32():
    assert 15 * 15 * COMPARED_SIZE**2 < 2**24


# The cache


def test_pictures_are_rendered_once_and_then_read(few, rendered, tmp_path):
    first, second = (glyphs(cache=str(tmp_path / "new" / "folder")) for _ in range(2))
    assert len(rendered) == 1
    assert first.fingerprint == second.fingerprint
    assert first.ids == second.ids


def test_other_settings_are_another_entry(few, rendered, tmp_path):
    for setting in ({}, {"size": 28}, {"seed": 1}, {"rotation": 5}, {"shift": 0.0}):
        glyphs(cache=str(tmp_path), **setting)
    assert len(rendered) == 5
    assert len(list(tmp_path.glob("*.npy"))) == 5


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut_short(path):
    path.write_bytes(path.read_bytes()[:-1000])


def empty(path):
    path.write_bytes(b"")


def say_not_a_number(path):
    path.write_text('{"index": NaN, "hash": "0"}')


def say_a_list(path):
    path.write_text(json.dumps({"index": [], "hash": hash_of([])}))


def be_of_another_version(path):
    record = json.loads(path.read_text(encoding="utf-8"))
    record["index"]["made_by"]["pillow"] = "0.1"
    path.write_text(json.dumps({"index": record["index"], "hash": hash_of(record["index"])}))


@pytest.mark.parametrize(
    ("suffix", "damage"),
    [
        *((".npy", damage) for damage in (flip_a_bit, cut_short, empty, Path.unlink)),
        *((".json", damage) for damage in (flip_a_bit, cut_short, empty)),
        *((".json", damage) for damage in (say_not_a_number, say_a_list, be_of_another_version)),
    ],
)
def test_a_damaged_or_foreign_entry_is_made_anew_and_said(few, rendered, tmp_path, caplog, suffix, damage):
    whole = glyphs(cache=str(tmp_path)).fingerprint
    (path,) = tmp_path.glob(f"*{suffix}")
    before = path.read_bytes()
    damage(path)
    with caplog.at_level(logging.WARNING, logger="unseen"):
        assert glyphs(cache=str(tmp_path)).fingerprint == whole
    assert "rendering again" in caplog.text
    assert len(rendered) == 2
    assert path.read_bytes() == before
    assert glyphs(cache=str(tmp_path)).fingerprint == whole
    assert len(rendered) == 2


def test_a_writer_killed_between_its_two_files_leaves_nothing_wrong(few, rendered, tmp_path, caplog):
    whole = glyphs(cache=str(tmp_path)).fingerprint
    (index,) = tmp_path.glob("*.json")
    index.unlink()
    assert glyphs(cache=str(tmp_path)).fingerprint == whole
    assert len(rendered) == 2
    assert not caplog.records


def test_a_cache_that_cannot_be_written_stops_nobody(few, tmp_path, caplog):
    usual = glyphs(cache=str(tmp_path / "cache")).fingerprint
    (tmp_path / "file").write_text("in the way")
    assert glyphs(cache=str(tmp_path / "file" / "cache")).fingerprint == usual
    assert "cannot be written" in caplog.text


def test_a_full_disk_stops_nobody(few, tmp_path, caplog, monkeypatch):
    def full(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "write_bytes", full)
    assert len(glyphs(cache=str(tmp_path))) == 9
    assert "No space left" in caplog.text


def test_the_cache_is_where_the_environment_says(few, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "users"))
    glyphs(cache="~/stated")
    assert sorted(path.suffix for path in (tmp_path / "stated").iterdir()) == [".json", ".npy"]
    glyphs()
    assert sorted(path.suffix for path in (tmp_path / "users" / "unseen").iterdir()) == [".json", ".npy"]
    monkeypatch.delenv("XDG_CACHE_HOME")
    glyphs()
    assert sorted(path.suffix for path in (tmp_path / ".cache" / "unseen").iterdir()) == [".json", ".npy"]


@pytest.mark.parametrize("variables", [{}, {"XDG_CACHE_HOME": "not/absolute"}])
def test_without_a_home_images_stay_in_memory(few, monkeypatch, tmp_path, caplog, variables):
    monkeypatch.chdir(tmp_path)
    for name in ("XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)  # what it does for a user without a home
    assert len(glyphs()) == 9
    assert "in memory" in caplog.text
    assert list(tmp_path.iterdir()) == []


# Settings


@pytest.mark.parametrize(
    "setting",
    [
        *({"size": size} for size in (0, 7, 257, 32.0, True, "32", None)),
        *({"seed": seed} for seed in (-1, 0.5, None)),
        *({"rotation": rotation} for rotation in (-1, 181, float("nan"), "10")),
        *({"shift": shift} for shift in (-0.1, 0.6, float("inf"))),
        *({"max_per_class": most} for most in (0, 1, 2.5)),
        *({"cache": cache} for cache in ("", 3, "a\0b")),
    ],
)
def test_a_setting_out_of_range_is_refused(setting):
    with pytest.raises(ConfigError, match=f"glyphs: {next(iter(setting))} must be "):
        glyphs(**setting)


def test_glyphs_are_built_from_a_record(few, tmp_path):
    catalogue = build(data, {"name": "glyphs", "size": 28, "cache": str(tmp_path)})
    assert pixels_of(catalogue).shape == (9, 28, 28)
    with pytest.raises(ConfigError, match="did you mean 'size'"):
        build(data, "glyphs:sizes=28")


def test_a_matplotlib_without_fonts_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr("matplotlib.get_data_path", lambda: str(tmp_path))
    with pytest.raises(DataError, match="comes without DejaVuSans"):
        glyphs(cache=str(tmp_path / "cache"))
