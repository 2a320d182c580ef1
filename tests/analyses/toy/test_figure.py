"""The picture and the numbers of the toy examples."""

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from unseen.analyses.toy.figure import TOY_COLUMNS, seeds_with_effect, toy_csv, toy_rows, write_toys
from unseen.analyses.toy.train import EXAMPLES, VARIANTS, ToyRun


def run_of(example, variant, seed, second):
    angles = np.linspace(0, second, 60)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return ToyRun(
        example=example,
        variant=variant,
        seed=seed,
        train=circle / 2,
        test=circle / 3,
        train_embeddings=circle,
        test_embeddings=circle[::-1],
        spectrum=np.array([1 - second, second]),
        curve=np.array([[0, 0.1], [200, second]]),
        recall=0.75,
        reach=second,
    )


SECONDS = {"contrastive": 0.1, "regularised": 0.4, "no pull, no switch": 0.35, "pull and switch": 0.1}


@pytest.fixture
def runs():
    places = [(example, variant, seed) for seed in (0, 1) for example in EXAMPLES for variant in VARIANTS]
    return [run_of(*place, SECONDS[place[1]] + 0.01 * place[2]) for place in places]


def test_an_effect_needs_both_sides_of_the_threshold(runs):
    assert seeds_with_effect(runs, "diagonal") == [0, 1]
    for variant, second in (("contrastive", 0.3), ("regularised", 0.2)):
        spoilt = [
            replace(run, spectrum=np.array([1 - second, second])) if (run.variant, run.seed) == (variant, 1) else run
            for run in runs
        ]
        assert seeds_with_effect(spoilt, "diagonal") == [0]


def test_the_table_has_a_line_for_each_variant_with_mean_and_range(runs):
    rows = toy_rows(runs)
    assert len(rows) == len(EXAMPLES) * len(VARIANTS)
    assert rows[1] == ["diagonal", "regularised", *["0.41 (0.40–0.41)"] * 2, "0.75 (0.75–0.75)", "2"]
    assert all(len(row) == len(TOY_COLUMNS) for row in rows)


def test_the_numbers_come_back_from_both_files(runs, tmp_path):
    picture, table, full = write_toys(runs, tmp_path)
    assert table.read_text() == toy_csv(runs)
    rows = list(csv.DictReader(io.StringIO(table.read_text())))
    assert [float(row["second"]) for row in rows] == [run.spectrum[1] for run in runs]
    assert {row["p_switch"] for row in rows if row["variant"] == "contrastive"} == {"0.0"}
    kept = json.loads(full.read_text())
    assert kept["runs"][0]["train_embeddings"] == runs[0].train_embeddings.tolist()
    with Image.open(picture) as image:
        assert image.size == (2600, 1160)
        colours = image.convert("RGB").getcolors(2**24)
        assert colours is not None
        assert len(colours) > 100  # not an empty page


def test_equal_runs_give_equal_bytes(runs, tmp_path):
    first, second = (write_toys(runs[:8], tmp_path / name)[0].read_bytes() for name in ("a", "b"))
    assert first == second
