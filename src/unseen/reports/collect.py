"""The content of a report: the results of a study or run, and its finished analyses."""

from dataclasses import replace
from pathlib import Path

from unseen.analyses import read_analyses
from unseen.studies.results.content import Content
from unseen.studies.results.load import load_content


def collect(folder: Path) -> Content:
    """The results of a study or run as far as it is finished, with its analyses."""
    return replace(load_content(folder), pictures=read_analyses(folder))
