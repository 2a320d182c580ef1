"""Analyses as files: `<study>/analyses/<name>.json` is the truth, with a picture and a CSV of its numbers beside it."""

import base64
import re
from pathlib import Path
from typing import Literal

from PIL import Image
from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError, model_validator

from unseen.analyses.base import AnalysisResult, Value, finite_or_none, short_value
from unseen.core.config import Record
from unseen.core.csv_table import csv_of
from unseen.core.errors import DataError
from unseen.core.files import write_bytes, write_text
from unseen.figures.style import render_png
from unseen.studies.results.content import Picture

FOLDER = "analyses"
"""The folder inside a study's folder that holds them."""

MAX_ROWS = 400  # that a report shows beside a picture; the CSV has all of them


class StoredAnalysis(BaseModel):
    """The JSON file of an analysis."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    version: Literal[1] = 1
    name: str
    settings: dict[str, JsonValue]
    columns: list[str]
    rows: list[list[Value]]
    remarks: list[str]

    @model_validator(mode="after")
    def _rows_fit_columns(self) -> "StoredAnalysis":
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError("every row needs a value for each column")
        return self


def write_analysis(study: Path, name: str, settings: Record, result: AnalysisResult) -> Path:
    """Write the picture, the CSV and, last, the JSON of an analysis into a study's folder; returns the JSON's path."""
    stored = StoredAnalysis(
        name=name,
        settings=settings,
        columns=list(result.columns),
        rows=[[finite_or_none(value) for value in row] for row in result.rows],
        remarks=list(result.remarks),
    )
    stem = "-".join(part for part in (name, re.sub(r"[^\w.-]", "_", result.variant.replace("@", "-at-"))) if part)
    path = study / FOLDER / f"{stem}.json"
    write_bytes(path.with_suffix(".png"), render_png(result.draw))
    write_text(path.with_suffix(".csv"), csv_of(stored.columns, stored.rows))
    write_text(path, stored.model_dump_json(indent=2) + "\n")
    return path


def read_analyses(study: Path) -> list[Picture]:
    """The analyses of a study or run as its report shows them, by name.

    Raises:     DataError for a JSON file that is no analysis, or that has no picture beside it
    """
    return [_read(path) for path in sorted((study / FOLDER).glob("*.json"))]


def _read(path: Path) -> Picture:
    hint = "Run `unseen analyse` again, or remove it."
    try:
        stored = StoredAnalysis.model_validate_json(path.read_bytes())
    except ValidationError as problem:
        reason = problem.errors()[0]
        where = ".".join(map(str, reason["loc"]))
        raise DataError(f"{path} is not an analysis ({where}: {reason['msg']})", hint=hint) from None
    picture = path.with_suffix(".png")
    try:
        with Image.open(picture, formats=["PNG"]) as opened:
            size = opened.size
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as problem:
        raise DataError(f"{picture} is not the picture of an analysis ({problem})", hint=hint) from None
    address = "data:image/png;base64," + base64.b64encode(picture.read_bytes()).decode("ascii")
    rows = tuple(tuple(short_value(value) for value in row) for row in stored.rows[:MAX_ROWS])
    return Picture(
        name=path.stem,
        address=address,
        size=size,
        remarks=tuple(stored.remarks),
        columns=tuple(stored.columns),
        rows=rows,
        left_out=len(stored.rows) - len(rows),
    )
