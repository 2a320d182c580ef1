"""Analyses of spectra: what they correlate, draw and refuse."""

import csv
import io
import json

import numpy as np
import pytest
from PIL import Image

from tests.helpers.made_methods import MIXUP, REGULARISATION, SWEEP, methods_from
from tests.helpers.made_studies import decaying, distance_loss, write_study
from unseen.analyses import AnalysisInputs, run_analysis
from unseen.analyses.correlation import correlation
from unseen.analyses.p_switch import p_switch_sweeps
from unseen.analyses.spectral.ablations import p_switch_of
from unseen.analyses.spectral.trained_methods import read_trained_methods
from unseen.core.errors import ConfigError, DataError
from unseen.core.registry import analysis
from unseen.evaluation.scores.spectra import spectral_decay as rho_of_values


def analysed(name, folder, methods):
    """An analysis of a made-up study, not written."""
    return analysis[name](AnalysisInputs(write_study(folder / "study", methods)))


def test_a_sweep_that_begins_at_0_has_that_as_its_plain_method(tmp_path):
    methods = {**SWEEP, "margin": (distance_loss(p_switch=0.0), "plain", 0.5, 0.6)}
    (sweep,) = p_switch_sweeps(methods_from(tmp_path, methods))
    assert sweep.baseline is not None
    assert sweep.baseline.name == "margin"


def test_spectral_decay_is_that_of_the_training_embeddings_with_its_score(tmp_path):
    found = analysed("spectral-decay", tmp_path, REGULARISATION)
    row = dict(zip(found.columns, found.rows[0], strict=True))
    assert row["method"] == "margin"
    assert row["rho"] == pytest.approx(rho_of_values(decaying(0.6)))
    assert (row["recall@1"], row["recall@1 deviation"], row["seeds"]) == (pytest.approx(0.505), pytest.approx(0.005), 2)
    rhos = [rho_of_values(decaying(rate)) for *_, rate in REGULARISATION.values()]
    recalls = [recall for _, _, recall, _ in REGULARISATION.values()]
    assert np.corrcoef(rhos, recalls)[0, 1] == pytest.approx(correlation(rhos, recalls).pearson)
    assert f"{correlation(rhos, recalls)}" in found.remarks[0]
    assert "of 2 regularised methods 2 have a lower rho and 2 a higher recall@1" in found.remarks[-1]


def test_a_sweep_is_in_the_order_of_p_switch(tmp_path):
    (sweep,) = p_switch_sweeps(methods_from(tmp_path / "read", SWEEP))
    assert [p_switch_of(method.config) for method in sweep.methods] == [0.1, 0.2, 0.4]
    found = analysed("p-switch", tmp_path, SWEEP)
    assert [row[3] for row in found.rows] == [0.0, 0.1, 0.2, 0.4]
    assert "Spearman +1.00, 4 points" in found.remarks[0]
    assert "Spearman -1.00, 4 points" in found.remarks[1]


def test_spectra_are_listed_for_both_sides_and_sum_to_one(tmp_path):
    found = analysed("mixup", tmp_path, MIXUP)
    for method in MIXUP:
        own = [row for row in found.rows if row[2] == method and row[4] == "all"]
        assert sum(row[-1] for row in own) == pytest.approx(1)
        assert [row[3] for row in own] == [method != "margin"] * 16
    assert len([row for row in found.rows if row[4] == "class"]) == 2 * 35
    assert "recall@1 0.505 to 0.405" in found.remarks[0]


@pytest.mark.parametrize(
    ("name", "methods"),
    [("spectral-decay", REGULARISATION), ("spectra", REGULARISATION), ("p-switch", SWEEP), ("mixup", MIXUP)],
    ids=["spectral-decay", "spectra", "p-switch", "mixup"],
)
@pytest.mark.parametrize("splits", [("characters",), ("characters", "scripts $x$ _y")])
def test_a_picture_and_its_numbers_are_written(tmp_path, name, methods, splits):
    folder = write_study(tmp_path / "study", methods, splits=splits)
    found, path = run_analysis(name, AnalysisInputs(folder), {})
    assert path == folder / "analyses" / f"{name}.json"
    with Image.open(path.with_suffix(".png")) as image:
        assert min(image.size) > 500
        colours = image.convert("RGB").getcolors(2**24)
        assert colours is not None
        assert len(colours) > 50
    stored = json.loads(path.read_text())
    assert (stored["name"], stored["settings"], stored["version"]) == (name, {"score": "recall@1"}, 1)
    assert stored["columns"] == list(found.columns)
    assert stored["rows"] == [list(row) for row in found.rows]
    assert stored["remarks"] == list(found.remarks)
    rows = list(csv.reader(io.StringIO(path.with_suffix(".csv").read_text())))
    assert len(rows) == len(found.rows) + 1
    assert all(len(line) == len(found.printed_columns) for line in found.terminal_rows())


@pytest.mark.parametrize(
    ("name", "methods", "words"),
    [
        ("spectral-decay", MIXUP, "fewer than 3 trained methods"),
        ("spectra", MIXUP, "without rho-regularisation"),
        ("p-switch", REGULARISATION, "no method with two values of p_switch"),
        ("mixup", REGULARISATION, "without mixup"),
    ],
)
def test_a_study_that_does_not_fit_is_refused(tmp_path, name, methods, words):
    with pytest.raises(DataError, match=words):
        analysed(name, tmp_path, methods)


def test_folders_scores_and_cells_that_are_not_there_are_named(tmp_path):
    with pytest.raises(DataError, match="no folder of a study"):
        read_trained_methods(AnalysisInputs(tmp_path), "recall@1")
    untrained = write_study(tmp_path / "untrained", {"none": (None, "plain", 0.3, 0.5)}, epochs=0)
    with pytest.raises(DataError, match="no trained cell"):
        read_trained_methods(AnalysisInputs(untrained), "recall@1")
    folder = write_study(tmp_path / "study", MIXUP)
    with pytest.raises(ConfigError, match="no score 'recall'; did you mean 'recall@1'"):
        read_trained_methods(AnalysisInputs(folder), "recall")
    next((folder / "cells").glob("*/model.safetensors")).unlink()
    with pytest.raises(DataError, match="holds no trained weights"):
        read_trained_methods(AnalysisInputs(folder), "recall@1")
