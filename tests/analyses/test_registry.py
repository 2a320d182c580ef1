"""The analyses of a study: what they pair, correlate, draw and refuse."""

import csv
import io
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from tests.helpers.made_studies import decaying, distance_loss, write_study
from unseen.analyses.base import write_analysis
from unseen.analyses.correlation import correlation
from unseen.analyses.p_switch import p_switch_sweep, sweeps_of
from unseen.analyses.registry import ANALYSES, check_analyses
from unseen.analyses.spectra import paired_spectra
from unseen.analyses.spectral_decay import spectral_decay
from unseen.analyses.stored import FOLDER, MOST_ROWS, read_pictures
from unseen.analyses.study_methods import (
    MIXED,
    REGULARISED,
    p_switch_of,
    pairs_of,
    read_study,
    without_mixup,
    without_switch,
)
from unseen.core.config import read_yaml
from unseen.core.errors import ConfigError, DataError
from unseen.evaluation.scores.spectra import spectral_decay as rho_of_values
from unseen.reports.page import build_report
from unseen.studies.plan_files import shipped_plans
from unseen.studies.results.content import Content

# label -> loss, method, recall@1, rate of decay (1 would be a flat spectrum)
REGULARISATION = {
    "margin": (distance_loss(), "plain", 0.50, 0.6),
    "R-margin": (distance_loss(p_switch=0.3), "plain", 0.55, 0.8),
    "triplet": (distance_loss("triplet"), "plain", 0.40, 0.5),
    "R-triplet": (distance_loss("triplet", 0.3), "plain", 0.52, 0.7),
    "multi-similarity": ({"name": "multi_similarity"}, "plain", 0.60, 0.9),
    "R-snr": (distance_loss("snr", 0.3), "plain", 0.45, 0.65),
}
SWEEP = {
    "margin": (distance_loss(), "plain", 0.5, 0.6),
    **{f"R {p}": (distance_loss(p_switch=p), "plain", 0.5 + p / 10, 0.6 + p / 5) for p in (0.4, 0.1, 0.2)},
}
MIXUP = {
    "margin": (distance_loss(), "plain", 0.5, 0.6),
    "margin, mixup": (distance_loss(), "mixup", 0.4, 0.5),
}


def studied_from(folder, methods, **settings):
    return read_study(write_study(folder / "study", methods, **settings), "recall@1")


def test_regularised_methods_are_paired_with_what_differs_by_the_miner_alone(tmp_path):
    methods = {**REGULARISATION, "R-margin, other": (distance_loss(p_switch=0.3, beta=0.6), "plain", 0.5, 0.7)}
    pairs = pairs_of(studied_from(tmp_path, methods), REGULARISED)
    assert [(pair.without.name, pair.treated.name) for pair in pairs] == [
        ("margin", "R-margin"),
        ("triplet", "R-triplet"),
    ]
    assert pairs[0].difference(lambda cell: cell.score) == pytest.approx([0.05, 0.05])


def test_pairs_stay_on_their_split(tmp_path):
    pairs = pairs_of(studied_from(tmp_path, REGULARISATION, splits=("characters", "scripts")), REGULARISED)
    assert len(pairs) == 4
    assert all(pair.without.place == pair.treated.place for pair in pairs)


def test_a_miner_that_never_switches_is_the_plain_one():
    never, plain = ({"loss": distance_loss(p_switch=p)} for p in (0.0, None))
    assert without_switch(never) is None
    assert without_switch(plain) is None
    assert without_switch({"loss": distance_loss(p_switch=0.2)}) == plain
    assert p_switch_of({"loss": {"name": "robust", "of": distance_loss(p_switch=0.2)}}) == 0.2


def test_a_sweep_that_begins_at_0_has_that_as_its_plain_method(tmp_path):
    methods = {**SWEEP, "margin": (distance_loss(p_switch=0.0), "plain", 0.5, 0.6)}
    (sweep,) = sweeps_of(studied_from(tmp_path, methods))
    assert sweep.without.name == "margin"


def test_mixup_is_taken_away_without_touching_the_loss():
    config = {"loss": distance_loss(), "method": {"name": "mixup", "alpha": 2.0}}
    assert without_mixup(config) == {"loss": distance_loss(), "method": {"name": "plain"}}
    assert without_mixup({"loss": distance_loss(), "method": {"name": "plain"}}) is None


def test_spectral_decay_is_that_of_the_training_embeddings_with_its_score(tmp_path):
    found = spectral_decay(studied_from(tmp_path, REGULARISATION))
    row = dict(zip(found.columns, found.rows[0], strict=True))
    assert row["method"] == "margin"
    assert row["rho"] == pytest.approx(rho_of_values(decaying(0.6)))
    assert (row["recall@1"], row["recall@1 deviation"], row["seeds"]) == (pytest.approx(0.505), pytest.approx(0.005), 2)
    rhos = [rho_of_values(decaying(rate)) for *_, rate in REGULARISATION.values()]
    recalls = [recall for _, _, recall, _ in REGULARISATION.values()]
    assert np.corrcoef(rhos, recalls)[0, 1] == pytest.approx(correlation(rhos, recalls).pearson)
    assert f"{correlation(rhos, recalls)}" in found.remarks[0]
    assert "of 2 regularised methods 2 have a lower rho and 2 a higher recall@1" in found.remarks[-1]


def test_correlation_by_hand_and_where_there_is_none():
    found = correlation([1, 2, 3, 4], [-1, -8, -27, -64])
    assert found.spearman == pytest.approx(-1)
    assert found.pearson == pytest.approx(-0.9513698)
    for first, second in (([1, 2], [3, 4]), ([1, 1, 1], [1, 2, 3]), ([1, 2, float("nan")], [1, 2, 3]), ([], [])):
        assert np.isnan(correlation(first, second).pearson)
    assert "not defined" in str(correlation([1, 2], [3, 4]))


def test_a_sweep_is_in_the_order_of_p_switch(tmp_path):
    studied = studied_from(tmp_path, SWEEP)
    (sweep,) = sweeps_of(studied)
    assert [p_switch_of(method.config) for method in sweep.methods] == [0.1, 0.2, 0.4]
    found = p_switch_sweep(studied)
    assert [row[3] for row in found.rows] == [0.0, 0.1, 0.2, 0.4]
    assert "Spearman +1.00, 4 points" in found.remarks[0]
    assert "Spearman -1.00, 4 points" in found.remarks[1]


def test_spectra_are_listed_for_both_sides_and_sum_to_one(tmp_path):
    found = paired_spectra(studied_from(tmp_path, MIXUP), MIXED, "mixup")
    for method in MIXUP:
        own = [row for row in found.rows if row[2] == method and row[4] == "all"]
        assert sum(row[-1] for row in own) == pytest.approx(1)
        assert [row[3] for row in own] == [method != "margin"] * 16
    assert len([row for row in found.rows if row[4] == "class"]) == 2 * 35
    assert "recall@1 0.505 to 0.405" in found.remarks[0]


@pytest.mark.parametrize(
    ("methods", "analyse"),
    [
        (REGULARISATION, spectral_decay),
        (REGULARISATION, lambda studied: paired_spectra(studied, REGULARISED, "spectra")),
        (SWEEP, p_switch_sweep),
        (MIXUP, lambda studied: paired_spectra(studied, MIXED, "mixup")),
    ],
    ids=["spectral-decay", "spectra", "p-switch", "mixup"],
)
@pytest.mark.parametrize("splits", [("characters",), ("characters", "scripts $x$ _y")])
def test_a_picture_and_its_numbers_are_written(tmp_path, methods, analyse, splits):
    found = analyse(studied_from(tmp_path, methods, splits=splits))
    picture, numbers = write_analysis(found, tmp_path / "analyses")
    with Image.open(picture) as image:
        assert min(image.size) > 500
        assert len(image.convert("RGB").getcolors(2**24)) > 50
    rows = list(csv.reader(io.StringIO(numbers.read_text())))
    assert len(rows) == len(found.rows) + 1
    assert all(len(line) == len(found.shown) for line in found.lines())


@pytest.mark.parametrize(
    ("methods", "analyse", "words"),
    [
        (MIXUP, spectral_decay, "fewer than 3 trained methods"),
        (MIXUP, lambda studied: paired_spectra(studied, REGULARISED, "spectra"), "without rho-regularisation"),
        (REGULARISATION, p_switch_sweep, "no method with two values of p_switch"),
        (REGULARISATION, lambda studied: paired_spectra(studied, MIXED, "mixup"), "without mixup"),
    ],
)
def test_a_study_that_does_not_fit_is_refused(tmp_path, methods, analyse, words):
    with pytest.raises(DataError, match=words):
        analyse(studied_from(tmp_path, methods))


def test_folders_scores_and_cells_that_are_not_there_are_named(tmp_path):
    with pytest.raises(DataError, match="no folder of a study"):
        read_study(tmp_path, "recall@1")
    untrained = write_study(tmp_path / "untrained", {"none": (None, "plain", 0.3, 0.5)}, epochs=0)
    with pytest.raises(DataError, match="no trained cell"):
        read_study(untrained, "recall@1")
    folder = write_study(tmp_path / "study", MIXUP)
    with pytest.raises(ConfigError, match="no score 'recall'; did you mean 'recall@1'"):
        read_study(folder, "recall")
    next((folder / "cells").glob("*/model.safetensors")).unlink()
    with pytest.raises(DataError, match="holds no trained weights"):
        read_study(folder, "recall@1")


def _page(folder):
    return build_report(Content(title="t", version="0", rows=[], pictures=read_pictures(folder)))


def test_the_report_shows_the_analyses_of_its_study(tmp_path):
    folder = write_study(tmp_path / "study", REGULARISATION)
    assert read_pictures(folder) == []
    made = ANALYSES["spectral-decay"](folder, lambda done, total: None)
    write_analysis(made, folder / FOLDER)
    [picture] = read_pictures(folder)
    assert picture.name == "spectral-decay"
    assert picture.remarks == tuple(made.remarks)
    assert picture.columns == tuple(made.columns)
    assert len(picture.rows) == len(made.rows)
    page = _page(folder)
    assert picture.address in page
    assert "<h2>Analyses</h2>" in page
    for remark in made.remarks:
        assert remark in page


def test_words_of_strangers_in_pictures_and_tables_are_text(tmp_path):
    folder = write_study(tmp_path / "study", REGULARISATION)
    made = ANALYSES["spectral-decay"](folder, lambda done, total: None)
    (folder / FOLDER).mkdir()
    hostile = replace(made, name="a", remarks=["<script>alert(1)</script>"], columns=["<b>"], rows=[["<i>x</i>"]])
    write_analysis(hostile, folder / FOLDER)
    page = _page(folder)
    assert "<script>" not in page
    assert "<i>x" not in page
    assert "&lt;i&gt;x" in page
    (folder / FOLDER / "b.png").write_text("no picture")
    with pytest.raises(DataError, match=r"b\.png is no picture of an analysis"):
        read_pictures(folder)


def test_a_long_table_is_cut_and_says_so(tmp_path):
    folder = write_study(tmp_path / "study", REGULARISATION)
    made = ANALYSES["spectral-decay"](folder, lambda done, total: None)
    write_analysis(replace(made, columns=["n"], rows=[[n] for n in range(MOST_ROWS + 7)]), folder / FOLDER)
    [picture] = read_pictures(folder)
    assert (len(picture.rows), picture.left_out) == (MOST_ROWS, 7)
    assert "7 more rows are in" in _page(folder)


def test_an_analysis_that_does_not_exist_is_refused_before_a_study_begins():
    check_analyses({"few-shot": {"shots": [2], "workers": 1}, "spectra": {}})
    with pytest.raises(ConfigError, match="unknown analysis 'spectre'.*'spectra'"):
        check_analyses({"spectre": {}})
    with pytest.raises(ConfigError, match="analysis 'few-shot' has no setting 'shot'.*'shots'"):
        check_analyses({"few-shot": {"shot": [2]}})


@pytest.mark.parametrize("path", sorted(shipped_plans().values()), ids=lambda path: path.stem)
def test_every_shipped_plan_asks_for_analyses_that_exist(path):
    check_analyses(read_yaml(path).get("analyses", {}))
