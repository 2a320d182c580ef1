"""The commands as people type them: what they print, what they write, and how they answer mistakes."""

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tests.helpers.commands import one_sentence, unseen
from tests.helpers.small_runs import write_features, write_images

QUICK = ["--epochs", "2", "--embedding-size", "8", "--sampler", "samples_per_class:batch_size=12,per_class=2"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_features(folder / "features.npz")
    write_images(folder / "images")
    rows = ["path,label,split,note"]
    for path in sorted((folder / "images").rglob("*.png")):
        side = "train" if int(path.parent.name[-1]) < 6 else "test"
        rows.append(f"{path.relative_to(folder)},{path.parent.name},{side},x")
    (folder / "table.csv").write_text("\n".join(rows) + "\n")
    return folder


SMALL_IMAGES = ["--model", "convnet:base=4", "--transform", "crop:size=16"]


@pytest.mark.parametrize(
    "data",
    [
        ["features=features.npz"],
        ["folder=images", *SMALL_IMAGES],
        ["table=table.csv", *SMALL_IMAGES],
    ],
    ids=["features", "folder", "table"],
)
def test_train_ends_with_a_table_of_scores_on_unseen_classes_and_a_report_follows(place, tmp_path, data):
    out, err = unseen("train", "--data", *data, "--out", tmp_path / "run", *QUICK, cwd=place)
    assert out == ""
    for words in ("unseen classes", "recall@1", "map@r", "nmi", "wrote"):
        assert words in err
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert set(result) == {"scores", "history", "protocol", "chosen_epoch", "blend", "seconds"}
    assert [row["epoch"] for row in result["history"]] == [0, 1, 2]
    again = unseen("train", "--data", *data, "--out", tmp_path / "run", *QUICK, cwd=place)[1]
    assert "finished before" in again
    unseen("report", tmp_path / "run", cwd=place)
    assert "recall@1" in (tmp_path / "run" / "report.html").read_text()


def test_a_run_is_evaluated_and_embeds_its_data_to_the_same_scores(place, tmp_path):
    unseen("train", "--data", "features=features.npz", "--out", tmp_path / "run", *QUICK, cwd=place)
    from_run = json.loads(unseen("evaluate", tmp_path / "run", "--json", cwd=place)[0])
    stored = json.loads((tmp_path / "run" / "result.json").read_text())["scores"]
    assert from_run == stored
    unseen("embed", tmp_path / "run", "--side", "test", "--out", tmp_path / "test.npz", cwd=place)
    from_file = json.loads(unseen("evaluate", tmp_path / "test.npz", "--json", cwd=place)[0])
    assert from_file["numbers"]["map@r"] == pytest.approx(stored["numbers"]["map@r"], abs=1e-12)
    unseen("embed", tmp_path / "run", "--data", "features=features.npz", "--out", tmp_path / "all.npz", cwd=place)
    with np.load(tmp_path / "all.npz", allow_pickle=False) as arrays:
        assert arrays["features"].shape == (96, 8)


def test_show_prints_a_recipe_that_trains_to_the_same_run(place, tmp_path):
    text = unseen("show", "--data", "features=features.npz", *QUICK, cwd=place)[0]
    (tmp_path / "run.yaml").write_text(text)
    described = json.loads(unseen("show", tmp_path / "run.yaml", "--json", cwd=place)[0])
    direct = json.loads(unseen("show", "--data", "features=features.npz", *QUICK, "--json", cwd=place)[0])
    assert described == direct
    assert described["recipe"]["optimizer"]["lr"] == 2e-5


def test_list_shows_names_descriptions_and_arguments(tmp_path):
    losses = json.loads(unseen("list", "losses", "--json", cwd=tmp_path)[0])
    margin = next(entry for entry in losses if entry["name"] == "margin")
    assert {"name": "beta", "type": "float", "default": "1.2"} in margin["arguments"]
    everything = unseen("list", cwd=tmp_path)[0]
    for name in ("margin", "distance", "samples_per_class", "glyphs", "fraction", "recall", "convnet", "demo"):
        assert name in everything
    counts = dict(line.split()[:2] for line in everything.splitlines() if line and not line.startswith(" "))
    assert counts["losses"] == str(len(losses))
    assert set(json.loads(unseen("list", "--json", cwd=tmp_path)[0])) >= {
        "losses",
        "miners",
        "data",
        "scores",
        "studies",
    }


@pytest.mark.parametrize(
    "arguments", [["--help"], ["train", "--help"], ["list", "losses"], ["list", "--json"], ["--version"]]
)
def test_help_and_lists_do_not_import_torch(tmp_path, arguments):
    code = (
        f"import sys; sys.argv = ['unseen', *{arguments}]\n"
        "from unseen.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules, 'slow to start'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, cwd=tmp_path)


def test_a_study_runs_its_cells_once_and_the_second_time_only_reports(place, tmp_path):
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        """
name: small
title: A small study
data: {toy: "features=features.npz"}
splits: {half: "fraction:train=0.5,validation=0.3", other: "fraction:train=0.5,validation=0.3,seed=1"}
seeds: [0, 1]
base: {embedding_size: 6, epochs: 2, sampler: "samples_per_class:batch_size=12,per_class=2"}
methods:
  features: {loss: null, embedding_size: null, epochs: 0, seeds: [0]}
  contrastive: {loss: contrastive}
  triplet: {loss: {name: triplet, miner: {name: distance}}}
"""
    )
    err = unseen("study", plan, "--out", tmp_path / "out", cwd=place)[1]
    assert "10 of 10 cells are done, 10 of them now" in err
    assert "contrastive" in err
    page = (tmp_path / "out" / "report.html").read_bytes()
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "cells").rglob("result.json")}
    assert len(stamps) == 10
    assert "10 of 10 cells are done, 0 of them now" in unseen("study", plan, "--out", tmp_path / "out", cwd=place)[1]
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "cells").rglob("result.json")} == stamps
    assert (tmp_path / "out" / "report.html").read_bytes() == page
    for name in ("csv", "md", "tex"):
        assert list((tmp_path / "out").glob(f"*.{name}"))


def test_a_study_at_a_cached_depth_fills_the_stated_cache_once_for_all_cells_and_splits(place, tmp_path, monkeypatch):
    # Sums of checked files name the data, for the workers as for the runner, wherever the study's cache lies.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "usual cache"))
    unseen("data", "check", "--data", "folder=images", cwd=place)
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        """
name: cached
data: {toy: "folder=images"}
splits: {half: "fraction:train=0.5,validation=0", other: "fraction:train=0.5,validation=0,seed=1"}
base: {depth: frozen, model: "convnet:base=4", transform: "crop:size=16", embedding_size: 6, epochs: 1,
       sampler: "samples_per_class:batch_size=12,per_class=2"}
methods:
  features: {loss: null, epochs: 0}
  contrastive: {loss: contrastive}
"""
    )
    err = unseen("study", plan, "--out", tmp_path / "out", "--cache", tmp_path / "cache", cwd=place)[1]
    assert "4 of 4 cells are done" in err
    assert err.count("caching pooled features") == 1
    assert "worker 1: caching" not in err
    assert len(list((tmp_path / "cache").glob("*/rows.npy"))) == 1


def broken_image(folder):
    write_images(folder / "broken")
    path = folder / "broken" / "class 1" / "2.png"
    path.write_bytes(path.read_bytes()[:100])
    return ["train", "--data", "folder=broken", *SMALL_IMAGES], "class 1/2.png"


def single_image(folder):
    write_images(folder / "single")
    for number in range(1, 6):
        (folder / "single" / "class 3" / f"{number}.png").unlink()
    return ["train", "--data", "folder=single", *SMALL_IMAGES], "'class 3'"


def empty_folder(folder):
    (folder / "empty").mkdir()
    return ["train", "--data", "folder=empty"], "empty"


def missing_column(folder):
    (folder / "bad.csv").write_text("path,class\na.png,1\n")
    return ["train", "--data", "table=bad.csv"], "label"


def mistyped_loss(folder):
    write_features(folder / "features.npz")
    return ["train", "--data", "features=features.npz", "--loss", "multisimilarity"], "did you mean 'multi_similarity'"


def mistyped_setting(folder):
    write_features(folder / "features.npz")
    return ["train", "--data", "features=features.npz", "--loss", "margin:bta=1"], "did you mean 'beta'"


def wrong_value(folder):
    write_features(folder / "features.npz")
    return ["train", "--data", "features=features.npz", "--loss", "margin:margin=-1"], "margin must be"


def missing_file(folder):
    return ["train", "--data", "features=nowhere.npz"], "no file"


def no_data(folder):
    return ["train"], "there is no data"


def unknown_study(folder):
    return ["study", "dem"], "did you mean 'demo'"


def no_run(folder):
    return ["report", "."], "no folder of a study"


def unknown_list(folder):
    return ["list", "loses"], "did you mean 'losses'"


def unknown_yaml_key(folder):
    write_features(folder / "features.npz")
    (folder / "run.yaml").write_text("data: features=features.npz\nepoch: 3\n")
    return ["train", "run.yaml"], "did you mean 'epochs'"


def unknown_choice(folder):
    write_features(folder / "features.npz")
    return ["train", "--data", "features=features.npz", "--choose-by", "recall"], "choose_by must be one score"


def nothing_to_train(folder):
    write_features(folder / "features.npz")
    return ["train", "--data", "features=features.npz", "--embedding-size", "0"], "nothing to train"


def unknown_score(folder):
    write_features(folder / "features.npz")
    return ["evaluate", "features.npz", "--scores", "recal@1"], "did you mean 'recall"


@pytest.mark.parametrize(
    "mistake",
    [
        broken_image,
        single_image,
        empty_folder,
        missing_column,
        mistyped_loss,
        mistyped_setting,
        wrong_value,
        missing_file,
        no_data,
        unknown_study,
        no_run,
        unknown_list,
        unknown_yaml_key,
        unknown_choice,
        nothing_to_train,
        unknown_score,
    ],
    ids=lambda mistake: mistake.__name__,
)
def test_a_mistake_gets_one_sentence_and_writes_nothing(tmp_path, mistake):
    arguments, words = mistake(tmp_path)
    assert words in one_sentence(*arguments, cwd=tmp_path)


def test_an_unknown_option_and_a_word_for_a_number_end_with_2(tmp_path):
    for arguments in (["train", "--losss", "margin"], ["train", "--epochs", "many"], ["trian"]):
        assert "Traceback" not in unseen(*arguments, cwd=tmp_path, code=2)[1]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_run_interrupted_in_the_middle_says_how_to_continue_and_continues(place, tmp_path, how):
    arguments = ["train", "--data", "features=features.npz", "--out", str(tmp_path / "run"), "--epochs", "4000"]
    arguments += [*QUICK[2:], "--patience", "4000", "--save-seconds", "0"]
    running = subprocess.Popen(
        [sys.executable, "-m", "unseen", *arguments],
        cwd=place,
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 120
    while not list((tmp_path / "run").glob("checkpoints/checkpoint-*")) and time.monotonic() < until:
        time.sleep(0.05)
    running.send_signal(how)
    err = running.communicate(timeout=60)[1]
    assert running.returncode == 130
    assert "the same command continues" in err
    assert "Traceback" not in err
    assert not list((tmp_path / "run").rglob(".tmp-*"))
    assert not (tmp_path / "run" / "result.json").exists()


def test_train_at_depth_frozen_makes_its_cache_where_it_is_told_and_uses_it_again(place, tmp_path):
    settings = ["--data", "folder=images", *SMALL_IMAGES, *QUICK, "--depth", "frozen", "--cache", tmp_path / "cache"]
    first = unseen("train", *settings, "--out", tmp_path / "a", cwd=place)[1]
    assert "caching pooled features (60 x 64 in float32: 0.0 MB) in" in first
    second = unseen("train", *settings, "--seed", "0", "--loss", "triplet", "--out", tmp_path / "b", cwd=place)[1]
    assert "caching" not in second
    stored = json.loads((tmp_path / "a" / "result.json").read_text())["scores"]["numbers"]
    on_images = json.loads(unseen("evaluate", tmp_path / "a", "--json", cwd=place)[0])["numbers"]
    assert on_images["map@r"] == pytest.approx(stored["map@r"], abs=1e-6)


def test_a_run_that_keeps_its_start_says_so(place, tmp_path):
    err = unseen(
        *["train", "--data", "features=features.npz", *QUICK, "--optimizer", "sgd:lr=1000", "--head", "identity"],
        *["--embedding-size", "10", "--out", tmp_path / "run"],
        cwd=place,
    )[1]
    assert "no epoch was better on the validation classes than the start" in err


def test_a_protocol_is_shown_as_the_paper_states_it_and_as_a_run(place, tmp_path):
    stated = unseen("show", "--protocol", "R", cwd=place)[0]
    for words in ("Roth et al.", "embedding_size: 128", "choose_on: test", "notes:"):
        assert words in stated
    assert json.loads(unseen("show", "--protocol", "R", "--json", cwd=place)[0])["settings"]["epochs"] == 150
    text = unseen("show", "--protocol", "R", "--data", "folder=images", "--epochs", "5", "--json", cwd=place)[0]
    recipe = json.loads(text)["recipe"]
    assert (recipe["protocol"], recipe["epochs"], recipe["choose_on"]) == ("R", 5, "test")
    assert "unknown protocol 'Q'" in one_sentence("show", "--protocol", "Q", cwd=place)
