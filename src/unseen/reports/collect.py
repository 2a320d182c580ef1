"""What a report shows: the results of a study or run, and the analyses that were made of them."""

from dataclasses import replace
from pathlib import Path

from unseen.analyses import read_analyses
from unseen.studies.results.content import Content
from unseen.studies.results.load import load_content


def collect(folder: Path) -> Content:
    """The content of the report on a study or on a run, whatever of it is finished, with its analyses."""
    return replace(load_content(folder), pictures=read_analyses(folder))
