"""The bench of the image pipeline draws what it says, compares with the model alone, and writes readable files."""

import csv

import pytest

from bench import pipeline
from unseen.data import Crop
from unseen.data.batches import CatalogueDataset
from unseen.data.sources.folder import folder


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    root = tmp_path_factory.mktemp("bench") / "drawn"
    pipeline.draw_files(root, classes=3, of_a_class=4)
    return folder(str(root))


def costs():
    step = pipeline.Cost
    return {
        pipeline.MODEL: [[step(9.0, 9.0), step(1.0, 2.0), step(3.0, 2.0)], [step(9.0, 9.0), step(1.0, 2.0)]],
        "the loop, 1 worker": [[step(5.0, 9.0), step(2.0, 4.0), step(2.0, 4.0)], [step(7.0, 9.0), step(2.0, 5.0)]],
        "the loader alone, 1 worker": [[step(1.0, 1.0), step(0.1, 0.1)]],
    }


def test_drawn_files_are_pictures_of_about_the_stated_size(drawn):
    assert drawn.labels.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    sizes = [drawn.reader.image(index).size for index in range(12)]
    assert {height for _, height in sizes} == {160}
    assert all(180 <= width <= 240 for width, _ in sizes)
    assert 5_000 < drawn.reader.sizes.mean() < 20_000


def test_rows_hold_median_steps_beside_the_models_with_first_steps_apart():
    model, loop, _ = pipeline.rows_of(costs(), batch=8)
    assert model == (pipeline.MODEL, 8.0, 1.0, 250.0, 1.0, 9.0)
    assert loop == ("the loop, 1 worker", 4.0, 0.5, 500.0, 0.5, 6.0)


def test_loops_are_held_against_the_target_and_loading_against_the_models_processor_time(tmp_path):
    rows = pipeline.rows_of(costs(), batch=8)
    text = pipeline.table(rows, source="nothing", batch=8, steps=3, rounds=2)
    assert "the loops keep 0.50 to 0.50" in text
    assert "Loading takes 5.0 to 5.0 %" in text
    pipeline.write(rows, text, tmp_path)
    assert (tmp_path / "pipeline.md").read_text() == text
    written = list(csv.DictReader((tmp_path / "pipeline.csv").read_text().splitlines()))
    assert [row["subject"] for row in written] == list(costs())
    assert written[1]["ratio"] == "0.5000"


def test_every_subject_tells_of_every_step_and_the_steps_are_timed(drawn):
    items = CatalogueDataset(drawn, Crop(size=pipeline.SIZE))
    running = pipeline.subjects(items, 4, 2)
    assert len(running) == 1 + 2 * len(pipeline.WORKERS)
    for name in (pipeline.MODEL, "the loop, 0 workers", "the loader alone, 0 workers"):
        steps = pipeline.clocked(running[name], 1)
        assert len(steps) == (8 if "loader" in name else 2)
        assert all(cost.wall > 0 for cost in steps)
