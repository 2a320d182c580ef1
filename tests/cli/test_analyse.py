"""`unseen analyse` as people type it: what it prints and writes, and how it refuses."""

import json

import pytest

from tests.helpers.commands import one_sentence
from tests.helpers.made_studies import distance_loss, write_study
from unseen.cli.app import app

METHODS = {
    "margin": (distance_loss(), "plain", 0.50, 0.6),
    "R-margin 0.1": (distance_loss(p_switch=0.1), "plain", 0.55, 0.7),
    "R-margin 0.3": (distance_loss(p_switch=0.3), "plain", 0.56, 0.8),
    "margin, mixup": (distance_loss(), "mixup", 0.45, 0.5),
}


@pytest.mark.parametrize(
    ("analysis", "words"),
    [
        ("spectral-decay", "rho on training classes and recall@1: Pearson"),
        ("spectra", "changes of rho and of recall@1 by rho-regularisation: Pearson"),
        ("p-switch", "p_switch and recall@1: Pearson"),
        ("mixup", "margin, mixup: recall@1 0.505 to 0.455"),
    ],
)
def test_an_analysis_prints_its_correlation_and_writes_picture_and_numbers(tmp_path, capsys, analysis, words):
    folder = write_study(tmp_path / "study", METHODS)
    app(["analyse", analysis, str(folder)], standalone_mode=False)
    said = capsys.readouterr()
    assert said.out == ""
    assert words in said.err
    assert (folder / "analyses" / f"{analysis}.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "analyses" / f"{analysis}.csv").read_text().startswith("data,split,method,")
    stored = json.loads((folder / "analyses" / f"{analysis}.json").read_text())
    assert stored["columns"][:3] == ["data", "split", "method"]
    assert any(words in remark for remark in stored["remarks"])


def test_another_score_can_be_asked_for(tmp_path, capsys):
    folder = write_study(tmp_path / "study", METHODS)
    app(["analyse", "p-switch", str(folder), "--score", "nmi"], standalone_mode=False)
    assert "p_switch and nmi: Pearson not defined" in capsys.readouterr().err


def test_a_study_that_does_not_fit_is_one_sentence(tmp_path):
    plain = {name: entry for name, entry in METHODS.items() if name == "margin"}
    folder = write_study(tmp_path / "study", plain)
    sentence = one_sentence("analyse", "mixup", folder, cwd=tmp_path)
    assert sentence.startswith("unseen: the study has no method both with and without mixup")


def test_a_folder_without_a_study_is_one_sentence(tmp_path):
    assert "is no folder of a study" in one_sentence("analyse", "spectra", "nowhere", cwd=tmp_path)
