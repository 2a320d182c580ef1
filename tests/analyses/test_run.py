"""Analyses by name: the signature is the command line and what a plan may set, and adding one is one file."""

import importlib
import json
import subprocess
import sys

import pytest

from tests.helpers.commands import unseen
from unseen.analyses import AnalysisInputs, check_analyses, run_analysis
from unseen.cli.analyse import command_of, table_entries
from unseen.cli.app import app
from unseen.core.config import read_yaml
from unseen.core.errors import ConfigError
from unseen.core.registry import analysis
from unseen.shifts.episodes import EPISODES, SHOTS
from unseen.studies.plan_files import shipped_plans

TOY = '''"""Analysis `count-letters`: a toy."""

from collections.abc import Sequence

from unseen.analyses import AnalysisInputs, AnalysisResult
from unseen.core.registry import analysis
from unseen.figures.style import panels


@analysis("count-letters")
def count_letters(
    inputs: AnalysisInputs,
    /,
    *,
    words: Sequence[str] = ("a", "bc"),
    factor: int = 1,
    offset: float = 0.5,
    loud: bool = False,
) -> AnalysisResult:
    """Letters of each word.

    ======  =============================
    words   The words to count.
    factor  A number to multiply by,
            on a second line.
    ======  =============================
    """
    inputs.progress(1, 1, "counted")
    rows = [[word, factor * len(word) + offset] for word in words]
    return AnalysisResult(
        draw=lambda: panels(1, 1, width=2, height=2)[0],
        columns=("word", "letters"),
        rows=rows,
        remarks=[f"{inputs.folder.name}: {len(rows)} words" + ("!" if loud else ""), f"cache {inputs.cache}"],
        printed_columns=("word", "letters"),
    )
'''


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A module with one analysis, outside of the package; forgotten afterwards."""
    (tmp_path / "toy_analysis_of_tests.py").write_text(TOY)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(analysis, "_loaded", dict(analysis._loaded))
    monkeypatch.delitem(sys.modules, "toy_analysis_of_tests", raising=False)
    importlib.import_module("toy_analysis_of_tests")
    yield "count-letters"
    sys.modules.pop("toy_analysis_of_tests")


def test_one_new_file_is_a_command_with_the_options_of_its_signature(toy, tmp_path, capsys):
    study = tmp_path / "study"
    app(
        [
            *("analyse", toy, str(study), "--words", "house, of,cards", "--factor", "2", "--loud"),
            *("--cache", str(tmp_path / "cache")),
        ],
        standalone_mode=False,
    )
    said = capsys.readouterr().err
    assert "study: 3 words!" in said
    assert f"cache {tmp_path / 'cache'}" in said
    stored = json.loads((study / "analyses" / "count-letters.json").read_text())
    assert stored["rows"] == [["house", 10.5], ["of", 4.5], ["cards", 10.5]]
    assert stored["settings"] == {"words": ["house", "of", "cards"], "factor": 2, "offset": 0.5, "loud": True}
    assert (study / "analyses" / "count-letters.png").read_bytes().startswith(b"\x89PNG")


def test_one_new_file_can_be_asked_for_by_a_plan_and_is_listed(toy, tmp_path, capsys):
    check_analyses({toy: {"words": ["x"], "factor": 3}})
    with pytest.raises(ConfigError, match="analysis 'count-letters' has no setting 'word'; did you mean 'words'"):
        check_analyses({toy: {"word": ["x"]}})
    with pytest.raises(ConfigError, match="analysis 'count-letters': factor has the wrong type"):
        check_analyses({toy: {"factor": "many"}})
    result, _ = run_analysis(toy, AnalysisInputs(tmp_path), {"factor": 3, "words": ["abc"]})
    assert result.rows == [["abc", 9.5]]
    app(["list", "analyses", "--json"], standalone_mode=False)
    listed = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert listed[toy]["summary"] == "Letters of each word."
    assert [each["name"] for each in listed[toy]["arguments"]] == ["words", "factor", "offset", "loud"]


def test_help_comes_from_the_docstring(toy):
    options = {each.name: each for each in command_of(toy).params}
    assert list(options) == ["folder", "words", "factor", "offset", "loud", "cache"]
    assert getattr(options["factor"], "help", "") == "A number to multiply by, on a second line."
    assert options["words"].default == "a,bc"


def test_a_docstring_without_a_table_has_no_entries():
    assert table_entries("One line.") == {}
    assert table_entries("") == {}


def test_an_analysis_that_is_called_wrongly_is_one_sentence(tmp_path):
    out, err = unseen("analyse", "spectre", "nowhere", cwd=tmp_path, code=2)
    assert (out, err.count("\n")) == ("", 1)
    assert "unknown analysis 'spectre'; did you mean 'spectra'?" in err
    out, err = unseen("analyse", "few-shot", "nowhere", "--shots", "2,many", cwd=tmp_path, code=2)
    assert "analysis 'few-shot': shots has the wrong type" in err


def test_few_shot_takes_every_number_of_shots_and_episodes_by_default():
    defaults = {each.name: each.default for each in analysis.entry("few-shot").arguments}
    assert (defaults["shots"], defaults["episodes"]) == (str(SHOTS), str(EPISODES))


def test_an_analysis_is_imported_only_when_it_is_called(tmp_path):
    code = "import sys; from unseen.cli.app import app; app(['analyse', '--help'], standalone_mode=False); "
    code += "assert not {'torch', 'matplotlib', 'unseen.analyses'} & sys.modules.keys()"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "spectral-decay" in done.stdout


def test_an_analysis_that_does_not_exist_is_refused_before_a_study_begins():
    check_analyses({"few-shot": {"shots": [2], "workers": 1}, "spectra": {}})
    with pytest.raises(ConfigError, match="unknown analysis 'spectre'.*'spectra'"):
        check_analyses({"spectre": {}})
    with pytest.raises(ConfigError, match="analysis 'few-shot' has no setting 'shot'.*'shots'"):
        check_analyses({"few-shot": {"shot": [2]}})


@pytest.mark.parametrize("path", sorted(shipped_plans().values()), ids=lambda path: path.stem)
def test_every_shipped_plan_asks_for_analyses_that_exist(path):
    check_analyses(read_yaml(path).get("analyses", {}))
