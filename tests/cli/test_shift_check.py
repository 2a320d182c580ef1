"""`unseen shift-check` as people type it."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.helpers.small_runs import write_images
from tests.helpers.two_groups import gaussian_catalogue
from unseen.cli.app import app
from unseen.core.errors import ConfigError, DataError, UnseenError


@pytest.fixture(autouse=True)
def surroundings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "160")
    made = gaussian_catalogue(classes=60, per_class=8, gap=3.0)
    rows, names = made.reader.features, np.array(made.class_names)[made.labels]
    is_held = made.labels % 4 == 3
    np.savez("train.npz", features=rows[~is_held], labels=names[~is_held])
    np.savez("test.npz", features=rows[is_held], labels=names[is_held])
    np.savez("bare.npz", features=rows[is_held])
    np.save("bare.npy", rows[is_held])
    np.save("few.npy", rows[is_held][:5])


SHORT = ("--train", "features=train.npz", "--rungs", "3", "--episodes", "0")


def unseen(*arguments):
    """Standard output of a command, run in this process."""
    done = CliRunner().invoke(app, ["shift-check", *arguments])
    if isinstance(done.exception, UnseenError):
        raise done.exception
    assert done.exit_code == 0, f"{done.output}\n{done.exception!r}"
    return done.stdout


def test_labelled_data_are_placed_scored_and_drawn(tmp_path):
    out = unseen(*SHORT, "--test", "features=test.npz", "--out", "shift.png")
    assert "rung 2" in out
    assert "measured" in out
    assert "expected" in out or "beyond the hardest rung" in out
    assert (tmp_path / "shift.png").read_bytes().startswith(b"\x89PNG")


def test_features_without_labels_give_the_same_distance_from_any_file():
    found = [json.loads(unseen(*SHORT, "--json", "--test", test)) for test in ("features=bare.npz", "bare.npy")]
    assert found[0]["distance"] == found[1]["distance"]
    assert found[0]["measured"] is None
    assert not found[0]["classes_known"]
    ignored = json.loads(unseen(*SHORT, "--json", "--test", "features=test.npz", "--no-labelled"))
    assert ignored["distance"] == found[0]["distance"]
    assert ignored["measured"] is None
    rows = np.load("bare.npy")
    np.savez("one class.npz", features=rows, labels=np.zeros(len(rows), int))
    alone = json.loads(unseen(*SHORT, "--json", "--test", "features=one class.npz", "--no-labelled"))
    assert alone["distance"] == found[0]["distance"]


def test_deployment_images_need_no_classes(tmp_path):
    write_images(tmp_path / "train", classes=40, per_class=4)
    write_images(tmp_path / "deployed", classes=1, per_class=60)
    bare = (*SHORT[2:], "--train", "folder=train", "--test", "folder=deployed", "--model", "convnet:base=4")
    settings = (*bare, "--transform", "plain:size=8", "--dimensions", "4", "--json")
    found = json.loads(unseen(*settings, "--no-labelled"))
    assert found["distance"]["rows"] == [160, 60]
    assert found["measured"] is None
    with pytest.raises(DataError, match="at least 2 classes are needed"):
        unseen(*settings)


@pytest.mark.parametrize(
    ("test", "words"),
    [("no.npy", "no file no.npy"), ("bare.npy", "need training features"), ("folder=nowhere", "no folder nowhere")],
)
def test_deployment_data_are_looked_at_before_features_are_computed(tmp_path, test, words):
    write_images(tmp_path / "train", classes=12, per_class=4)
    small = ("--model", "convnet:base=4", "--transform", "plain:size=8")
    with pytest.raises(UnseenError, match=words):
        unseen("--train", "folder=train", "--test", test, *small)
    assert not list(tmp_path.glob("cache/*/rows.npy"))


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        (("--test", "few.npy"), DataError, "5 samples are too few"),
        (("--test", "no.npy"), DataError, "no file no.npy"),
        (("--test", "bare.npy", "--out", "shift.txt"), ConfigError, "--out must end in .png"),
        (("--test", "test.npz"), ConfigError, "Use features=test.npz"),
        (("--test", "bare.npy", "--episodes", "11"), ConfigError, "--episodes must be one of"),
        (("--test", "bare.npy", "--dimensions", "0"), ConfigError, "--dimensions must be"),
        (("--test", "bare.npy", "--seed", "-1"), ConfigError, "--seed must be"),
        (("--test", "bare.npy", "--shots", "3"), ConfigError, "--shots must be one of"),
        (("--test", "bare.npy", "--run", "r", "--model", "identity"), ConfigError, "a run has its own model"),
        (("--test", "bare.npy", "--run", "nowhere"), ConfigError, "not the folder of a finished run"),
    ],
)
def test_what_cannot_be_checked_is_one_sentence_and_nothing_is_written(tmp_path, arguments, kind, words):
    with pytest.raises(kind, match=words):
        unseen(*SHORT, *arguments)
    assert not list(tmp_path.glob("*.png")) + list(tmp_path.glob("*.txt"))
