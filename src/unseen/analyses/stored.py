"""The analyses of a study as its report shows them: read again from their pictures and tables."""

import base64
import csv
from pathlib import Path

from PIL import Image

from unseen.analyses.base import remarks_of
from unseen.core.errors import DataError
from unseen.studies.results.content import Picture

FOLDER = "analyses"
"""Where a study's folder holds them."""

MOST_ROWS = 400  # of numbers that a report shows beside a picture; the CSV has them all


def read_pictures(folder: Path) -> list[Picture]:
    """Every picture among the analyses of a study or run, with its numbers where they lie beside it."""
    return [_read(path) for path in sorted((folder / FOLDER).glob("*.png"))]


def _read(path: Path) -> Picture:
    try:
        with Image.open(path, formats=["PNG"]) as opened:
            size, remarks = opened.size, remarks_of(opened)
    except (OSError, ValueError, SyntaxError) as problem:
        words = f"{path} is no picture of an analysis ({problem})"
        raise DataError(words, hint="Use unseen analyse, or remove it.") from None
    address = "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode("ascii")
    table = path.with_suffix(".csv")
    lines: list[list[str]] = []
    if table.is_file():
        with table.open(encoding="utf-8", newline="") as file:
            lines = list(csv.reader(file))
    columns, rows = (lines[0], lines[1:]) if lines else ([], [])
    shown = tuple(tuple(_rounded(value) for value in row) for row in rows[:MOST_ROWS])
    return Picture(path.stem, address, size, remarks, tuple(columns), shown, len(rows) - len(shown))


def _rounded(text: str) -> str:
    try:
        return f"{float(text):.4g}"
    except ValueError:
        return text
