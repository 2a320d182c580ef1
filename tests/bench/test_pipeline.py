"""The bench of training draws what it says, compares with the model and the loop before, and writes readable files."""

import csv
from pathlib import Path
from typing import Any

import pytest

from bench import pipeline
from bench.pipeline_subject import Subject, clocked, round_of
from unseen.data.sources.folder import folder

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    root = tmp_path_factory.mktemp("bench") / "drawn"
    pipeline.draw_files(root, classes=3, of_a_class=4)
    return root


def costs():
    step, at = pipeline.Cost, ("full", 160)
    start = [step(50.0, 50.0), step(40.0, 40.0)]
    return {
        (pipeline.MODEL, *at): [
            start,
            [step(9.0, 9.0), step(1.0, 2.0), step(3.0, 2.0)],
            [step(9.0, 9.0), step(1.0, 2.0)],
        ],
        (pipeline.LOOP, *at): [
            start,
            [step(5.0, 9.0), step(2.0, 4.0), step(2.0, 4.0)],
            [step(7.0, 9.0), step(2.0, 5.0)],
        ],
        (pipeline.BEFORE, *at): [start, [step(5.0, 9.0), step(3.0, 8.0), step(3.0, 8.0)]],
    }


def test_drawn_files_are_pictures_of_about_the_stated_size(drawn):
    catalogue = folder(str(drawn))
    reader: Any = catalogue.reader
    assert catalogue.labels.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    sizes = [reader.image(index).size for index in range(12)]
    assert {height for _, height in sizes} == {pipeline.SHORTER_SIDE}
    assert all(280 <= width <= 384 for width, _ in sizes)
    assert 15_000 < reader.sizes.mean() < 60_000


def test_rows_hold_median_steps_beside_the_model_and_the_loop_before_with_first_steps_apart():
    model, loop, before = pipeline.rows_of(costs(), batch=8)
    assert model[:6] == (pipeline.MODEL, "full", 160, 8.0, 250.0, 1.0)
    assert loop == (pipeline.LOOP, "full", 160, 4.0, 500.0, 0.5, 1.5, 2.0, 6.0, 50.0)
    assert before.times_before != before.times_before  # nothing to compare it with


def test_loops_are_held_against_the_targets(tmp_path):
    rows = pipeline.rows_of(costs(), batch=8)
    text = pipeline.table(rows, source="nothing", batch=8, steps=3, rounds=2)
    assert "at least 0.9 of the model alone, with files, augmentation and guards (reached: 0.50 to 0.50)" in text
    assert "1.7 times the loop before (reached: 1.50 to 1.50)" in text
    assert "the loop before" not in pipeline.verdicts([rows[1]._replace(times_before=float("nan"))])
    pipeline.write(rows, text, tmp_path)
    assert (tmp_path / "pipeline.md").read_text() == text
    written = list(csv.DictReader((tmp_path / "pipeline.csv").read_text().splitlines()))
    assert [row["subject"] for row in written] == [pipeline.MODEL, pipeline.LOOP, pipeline.BEFORE]
    assert written[1]["times_before"] == "1.5000"


@pytest.mark.parametrize(("kind", "depth"), [("model", "full"), ("loop", "top"), ("loader", "full")])
def test_every_subject_tells_of_every_step_and_the_steps_are_timed(drawn, kind, depth):
    steps = clocked(round_of(Subject(kind, depth, 64, 8, 2, str(drawn))), 1)
    assert len(steps) == 2
    assert all(wall > 0 for wall, _ in steps)


def test_a_subject_is_measured_in_a_process_of_its_own_also_with_another_source(drawn):
    chosen = {key: subject for key, subject in pipeline.subjects(drawn, 8, 2).items() if key[0] == pipeline.LOOP}
    one = {key: subject._replace(size=64) for key, subject in list(chosen.items())[:1]}
    found = pipeline.measure(one, rounds=1, before=ROOT / "src")
    assert [key[0] for key in found] == [pipeline.LOOP, pipeline.BEFORE]
    assert all(len(rounds) == 2 and len(rounds[1]) == 2 for rounds in found.values())
