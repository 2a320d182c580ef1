"""Analyses by name: check the settings that a plan or a command asks for, run the analysis, write its files."""

from collections.abc import Mapping
from pathlib import Path

from unseen.analyses.base import AnalysisInputs, AnalysisResult
from unseen.analyses.stored import write_analysis
from unseen.core.config import Record, complete
from unseen.core.registry import analysis


def check_analyses(requested: Mapping[str, Mapping[str, object]]) -> None:
    """Refuse, before a study begins, an analysis that does not exist or a setting that it does not have.

    Raises:     ConfigError
    """
    for name, settings in requested.items():
        analysis_settings(name, settings)


def analysis_settings(name: str, settings: Mapping[str, object]) -> Record:
    """The settings checked against the signature of the analysis, with every default written out."""
    record = complete(analysis, {"name": name, **settings})
    return {key: value for key, value in record.items() if key != "name"}


def run_analysis(name: str, inputs: AnalysisInputs, settings: Mapping[str, object]) -> tuple[AnalysisResult, Path]:
    """Run an analysis of a finished study and write it into the study's folder; returns it and its JSON file."""
    checked = analysis_settings(name, settings)
    result: AnalysisResult = analysis[name](inputs, **checked)
    return result, write_analysis(inputs.folder, name, checked, result)
