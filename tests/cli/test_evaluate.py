"""Commands that measure: files larger than the memory, comparison, calibration, failures, and their mistakes."""

import json

import numpy as np
import pytest

from tests.helpers.commands import one_sentence, unseen
from tests.helpers.small_runs import write_features


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("measured")
    write_features(folder / "features.npz")
    with np.load(folder / "features.npz", allow_pickle=False) as arrays:
        features, labels = arrays["features"], arrays["labels"]
    np.save(folder / "rows.npy", features)
    np.save(folder / "labels.npy", labels)
    noise = np.random.Generator(np.random.Philox(0)).normal(size=features.shape)
    np.savez(folder / "noisy.npz", features=features + 2 * noise, labels=labels)
    (folder / "labels.txt").write_text("\n".join(map(str, labels)) + "\n")
    return folder


def test_a_mapped_file_with_labels_scores_as_the_npz_does(place):
    from_npz = json.loads(unseen("evaluate", "features.npz", "--json", cwd=place)[0])
    for labels in ("labels.npy", "labels.txt"):
        arguments = ("evaluate", "rows.npy", "--labels", labels, "--memory", "20", "--json")
        found = json.loads(unseen(*arguments, cwd=place)[0])
        # Classes are drawn in the order of their labels, which is another for texts.
        assert found["numbers"] == from_npz["numbers"]
        low, high = np.array(list(found["intervals"].values())).T
        lower, higher = np.array(list(from_npz["intervals"].values())).T
        assert np.abs(low - lower).max() < 0.2 * (high - low).max()
        assert np.abs(high - higher).max() < 0.2 * (high - low).max()


def test_scores_have_intervals_and_what_is_left_out_is_said(place):
    out, _ = unseen("evaluate", "features.npz", "--without", "clusters", "--ks", "1,3", cwd=place)
    rows = [line.replace("│", " ").split() for line in out.splitlines()]
    assert ["nmi", "left", "out"] in rows
    assert any(row[0] == "recall@3" and "to" in row for row in rows if row)
    plain = json.loads(unseen("evaluate", "features.npz", "--draws", "0", "--json", cwd=place)[0])
    assert plain["intervals"] == {}


def test_runs_of_different_pretraining_are_compared_with_a_warning(place):
    for name in ("one", "two"):
        quick = ["--epochs", "0", "--embedding-size", "8"]
        unseen("train", "--data", "features=features.npz", *quick, "--out", name, cwd=place)
    arguments = ["compare", "one", "two", "--scores", "recall@1"]
    assert "pretrained on different images" not in unseen(*arguments, cwd=place)[1]
    path = place / "two" / "result.json"
    path.write_text(path.read_text().replace("not stated: features of a file", "LVD-142M"))
    warning = " ".join(unseen(*arguments, cwd=place)[1].split())
    assert "different images (not stated: features of a file; LVD-142M)" in warning


def test_two_files_are_compared_score_by_score(place):
    found = json.loads(
        unseen("compare", "noisy.npz", "features.npz", "--scores", "recall@1,nmi", "--json", cwd=place)[0]
    )
    assert list(found) == ["recall@1", "nmi"]
    assert found["recall@1"]["value"] > 0
    out, _ = unseen("compare", "noisy.npz", "features.npz", "--scores", "recall@1", cwd=place)
    assert "difference" in out


def test_a_threshold_is_calibrated_and_tried_on_other_classes(place):
    found = json.loads(unseen("calibrate", "features.npz", "--rate", "0.05", "--json", cwd=place)[0])
    assert found["false_positive_rate"] <= 0.05
    assert -1 <= found["threshold"] <= 1
    out, _ = unseen("calibrate", "features.npz", "--rate", "0.05", cwd=place)
    assert "held-out classes" in out


def test_failures_are_listed_by_name(place):
    found = json.loads(unseen("failures", "noisy.npz", "--json", cwd=place)[0])
    assert found["failed_queries"] == pytest.approx(found["queries"] * (1 - recall(place)), abs=1e-6)
    out, _ = unseen("failures", "noisy.npz", "--count", "3", cwd=place)
    for title in ("worst queries", "confused classes", "near duplicates across classes", "weakest classes"):
        assert title in out


def recall(place):
    arguments = ("evaluate", "noisy.npz", "--scores", "recall@1", "--draws", "0", "--json")
    return json.loads(unseen(*arguments, cwd=place)[0])["numbers"]["recall@1"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["evaluate", "rows.npy"], "holds no labels"),
        (["evaluate", "rows.npy", "--labels", "absent.txt"], "no file absent.txt"),
        (["evaluate", "features.npz", "--labels", "labels.npy"], "--labels belongs to an npy file"),
        (["evaluate", "labels.npy", "--labels", "labels.npy"], "does not hold a table of numbers"),
        (["evaluate", "features.npz", "--ks", "1,x"], "--ks must be integers"),
        (["evaluate", "features.npz", "--without", "nmii"], "did you mean 'nmi'"),
        (["evaluate", "features.npz", "--scores", "nmi_super"], "nmi_super needs super_labels"),
        (["evaluate", "features.npz", "--draws", "3"], "draws must be"),
        (["calibrate", "features.npz", "--rate", "2"], "false_positive_rate"),
        (["compare", "features.npz", "features.npz", "--draws", "0"], "without draws"),
        (["failures", "features.npz", "--count", "0"], "count must be"),
    ],
)
def test_a_mistake_gets_one_sentence(place, arguments, words):
    assert words in one_sentence(*arguments, cwd=place)


def test_an_unknown_engine_is_one_sentence(place):
    for command in (("evaluate",), ("calibrate",), ("failures",), ("compare", "features.npz")):
        assert "engine" in one_sentence(*command, "features.npz", "--engine", "tensorrt", cwd=place)
    assert "engine" in one_sentence("train", "--data", "features=features.npz", "--engine", "tensorrt", cwd=place)
