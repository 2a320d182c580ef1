"""The bench of recall for the time: its clock, the weights it evaluates, and what it writes."""

import json
import sys
from types import SimpleNamespace

import pytest
from safetensors.torch import load_file

from bench import quality
from bench.quality import FINISHED, NOTHING, TRAINING, Row
from tests.helpers.small_runs import Stop, image_settings, stop_at, write_images
from unseen.runs import RunFolder, run

TEN_CHECKPOINTS = """
import pathlib, sys, time
for step in range(1, 11):
    folder = pathlib.Path(sys.argv[1]) / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    (folder / "state.json").write_text(str(step))
    time.sleep(float(sys.argv[2]))
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(quality, "POLL_SECONDS", 0.01)


def row(subject, minute, recall, *, seed=0, state=TRAINING, ended=None):
    words = {"data": "cub200", "files": "JPEG files", "options": "", "commit": "abc", "machine": "Measured today."}
    return Row(subject=subject, seed=seed, minute=minute, recall=recall, state=state, ended=ended, step=None, **words)


def watched(tmp_path, pause, marks):
    command = [sys.executable, "-c", TEN_CHECKPOINTS, str(tmp_path / "run"), str(pause)]
    newest = lambda: quality.newest_checkpoint(tmp_path / "run")  # noqa: E731
    return quality.watch(command, marks, tmp_path / "work", newest=newest)


def test_the_end_is_the_last_mark():
    assert quality.marks_up_to(60) == [5, 15, 30, 60]
    assert quality.marks_up_to(20) == [5, 15, 20]
    assert quality.marks_up_to(0.2) == [0.2]


def test_a_run_that_ends_before_a_mark_has_ended_and_is_not_started_again(tmp_path):
    timed = watched(tmp_path, 0, [10.0])
    assert timed.copies == {}
    assert 0 < timed.ended < 10
    again = watched(tmp_path, 0, [10.0])  # its folders exist: started again it would fail
    assert again == timed


def test_weights_are_copied_at_the_marks_and_the_process_is_ended_at_the_last(tmp_path):
    marks = [60 / 3600, 120 / 3600]
    timed = watched(tmp_path, 0.3, marks)
    assert timed.ended is None
    steps = [int((timed.copies[mark] / "state.json").read_text()) for mark in sorted(timed.copies)]
    assert steps == sorted(steps)
    assert len(list((tmp_path / "run").iterdir())) < 10


def test_the_clock_goes_on_after_an_interruption(tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "clock.json").write_text(json.dumps({"seconds": 600.0, "ended": None}))
    timed = watched(tmp_path, 0, [5.0, 15.0])
    assert 10 < timed.ended < 15
    assert json.loads((tmp_path / "work" / "clock.json").read_text())["seconds"] > 600


def test_a_failing_command_is_an_error(tmp_path):
    with pytest.raises(SystemExit, match="exit code 3"):
        quality.watch([sys.executable, "-c", "exit(3)"], [1.0], tmp_path / "work", newest=lambda: None)


@pytest.mark.parametrize("depth", [{}, {"depth": "top", "cut": "blocks.2"}, {"depth": "frozen"}])
def test_the_weights_of_a_checkpoint_are_the_best_so_far(tmp_path, depth):
    settings = image_settings(write_images(tmp_path / "images"), **depth) | {"batch_norm": "frozen"}
    with pytest.raises(Stop):
        run(settings, tmp_path / "run", cache=tmp_path / "cache", save_seconds=0, progress=stop_at(5))
    checkpoint = quality.newest_checkpoint(RunFolder(tmp_path / "run").checkpoints)
    best = {name for name in load_file(checkpoint / "tensors.safetensors") if name.startswith("best/")}
    assert best
    recall, step = quality.recall_of_checkpoint(checkpoint, tmp_path / "run", tmp_path / "cache")
    assert step == 5
    state = json.loads((checkpoint / "state.json").read_text())["run"]
    result = run(settings, tmp_path / "run", cache=tmp_path / "cache")
    assert result["chosen_epoch"] == state["best_epoch"], "the case is made so that no later epoch is better"
    assert recall == pytest.approx(100 * result["scores"]["numbers"]["recall@1"])


def test_rows_are_read_as_written_and_a_second_measurement_replaces_the_first(tmp_path):
    path = tmp_path / "quality.csv"
    quality.write_rows(path, [row("top", 5.0, None, state=NOTHING), row("top", 15.0, 60.0)])
    quality.write_rows(path, [row("top", 15.0, 61.0), row("full", 5.0, 50.0, ended=4.5, state=FINISHED)])
    assert quality.read_rows(path) == [
        row("full", 5.0, 50.0, ended=4.5, state=FINISHED),
        row("top", 5.0, None, state=NOTHING),
        row("top", 15.0, 61.0),
    ]
    assert len(path.read_text().splitlines()) == 4


def test_the_table_has_means_over_seeds_and_finished_runs_keep_their_number(tmp_path):
    rows = [
        row("frozen", 5.0, 60.0, state=FINISHED, ended=3.0),
        row("frozen", 5.0, 62.0, state=FINISHED, ended=5.0, seed=1),
        row("pml", 5.0, 40.0),
        row("pml", 15.0, 50.0),
        row("top", 5.0, None, state=NOTHING),
    ]
    lines = quality.markdown(rows).splitlines()
    assert "| frozen | 2 | 61.0 ± 1.4 | 61.0 ± 1.4 | 4 |" in lines
    assert "| pml | 1 | 40.0 | 50.0 | – |" in lines
    assert "| top | 1 | – |  | – |" in lines
    quality.draw([row for row in rows if row.recall is not None], tmp_path / "quality.png")
    assert (tmp_path / "quality.png").stat().st_size > 1000


def test_what_was_measured_is_not_measured_again(tmp_path, capsys):
    path = tmp_path / "quality.csv"
    quality.write_rows(path, [row("top", 60.0, 61.0)])
    options = SimpleNamespace(name="", subject="top", seed=0, minutes=60)
    quality.measure(options, path)
    assert "measured before" in capsys.readouterr().out
