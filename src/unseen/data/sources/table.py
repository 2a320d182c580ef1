"""A table of images: a CSV file with `path,label` and the optional columns of open-metric-learning."""

import csv
import io
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from unseen.core.errors import DataError
from unseen.core.registry import data, nearest
from unseen.data.catalogue import SIDES, Catalogue, SmallClasses, apply_small_class_policy, encode_labels
from unseen.data.item_readers import ImageFiles

NEEDED = ("path", "label")
OPTIONAL = ("split", "is_query", "is_gallery", "category")

_BOOLEANS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False, "": False}
# Data frames write integers as 1.0 if some are missing, and missing values as None or nan.
_BOOLEANS |= {"1.0": True, "0.0": False, "none": False, "nan": False}


class Row(NamedTuple):
    """One validated row; `number` counts from 1 with the header, as a spreadsheet does."""

    number: int
    path: str
    label: str
    split: str
    is_query: bool
    is_gallery: bool
    category: str


@data("table")
def table(path: str, *, root: str | None = None, small_classes: SmallClasses = "refuse") -> Catalogue:
    """A CSV file with columns path, label and optionally split, is_query, is_gallery, category.

    ===========  =========================================================================================
    path         of an image, relative to the CSV's own folder or to `root`
    label        class name, any string or number
    split        train, validation or test; without test rows the validation rows are the test side,
                 as in open-metric-learning
    is_query,    true, false, 1, 0, yes, no; empty means false
    is_gallery
    category     the group of the class
    ===========  =========================================================================================

    Other columns (such as bounding boxes) are ignored, with a note. A repeated row counts once. `small_classes` is
    what to do with classes of a single image: "refuse", "drop" or "keep".

    Raises:  `DataError` with the row number for missing, contradictory or unreadable values
    """
    file = Path(path).expanduser()
    image_root = Path(root).expanduser() if root is not None else file.parent
    listed, notes = _read_rows(file)
    rows = _without_repeated(file, listed)
    _check_files(file, image_root, rows)
    if len(rows) < len(listed):
        notes.append(f"repeated rows left out: {len(listed) - len(rows):,}")
    positions, small = apply_small_class_policy(str(file), [row.label for row in rows], small_classes)
    notes += small
    rows = [rows[position] for position in positions]

    split, groups = _complete_column(file, rows, "split"), _complete_column(file, rows, "category")
    class_names, labels, class_groups = encode_labels(str(file), [row.label for row in rows], groups)
    if split is not None and "test" not in split and "validation" in split:
        split = ["test" if side == "validation" else side for side in split]
        notes.append("the table has no test rows, so its validation rows are the test side")
    queries, gallery = np.array([row.is_query for row in rows]), np.array([row.is_gallery for row in rows])
    return Catalogue(
        name=file.stem,
        reader=ImageFiles(image_root, tuple(row.path for row in rows)),
        labels=labels,
        class_names=class_names,
        ids=tuple(row.path for row in rows),
        class_groups=class_groups,
        fixed_split=np.array(split) if split else None,
        is_query=queries if queries.any() else None,
        is_gallery=gallery if gallery.any() else None,
        notes=tuple(notes),
    )


def read_text(file: Path) -> str:
    """Read a UTF-8 file, with or without a byte-order mark; `DataError` names the first line that is not UTF-8."""
    try:
        content = file.read_bytes()
        return content.decode("utf-8-sig")
    except FileNotFoundError:
        raise DataError(f"no file {file}", hint="A text file is needed.") from None
    except OSError as problem:
        raise DataError(f"{file} cannot be read: {problem.strerror}") from None
    except UnicodeDecodeError as problem:
        line = content[: problem.start].count(b"\n") + 1
        raise DataError(f"{file}, row {line}: the text is not UTF-8", hint="Save the file as UTF-8.") from None


def _read_rows(file: Path) -> tuple[list[Row], list[str]]:
    """Return the rows, and a note about columns that are not used."""
    rows: list[Row] = []
    columns: list[str] = []
    number = 0
    try:
        for number, values in enumerate(csv.reader(io.StringIO(read_text(file), newline=""), strict=True), start=1):
            if number == 1:
                columns = _header(file, values)
            elif values and len(values) != len(columns):
                raise DataError(
                    f"{file}, row {number}: the header has {len(columns)} columns, the row has {len(values)}"
                )
            elif values:
                cells = (value.strip() for value in values)
                rows.append(_row(file, number, dict(zip(columns, cells, strict=True))))
    except csv.Error as problem:
        raise DataError(f"{file}, row {number + 1}: {problem}") from None
    if not columns:
        raise DataError(f"{file} is empty", hint="A CSV with the header path,label is needed.")
    if not rows:
        raise DataError(f"{file} has a header and no rows")
    others = [column for column in columns if column not in NEEDED + OPTIONAL and column]
    return rows, [f"columns ignored: {', '.join(others)}"] if others else []


def _header(file: Path, values: list[str]) -> list[str]:
    columns = [value.strip() for value in values]
    for column in NEEDED:
        if column not in columns:
            commas = " separated by commas" if len(columns) == 1 and any(mark in columns[0] for mark in ";\t|") else ""
            raise DataError(
                f"{file} has no column '{column}'{nearest(column, columns)}",
                got=", ".join(columns),
                hint=f"The header must have path,label{commas}.",
            )
    for column in NEEDED + OPTIONAL:
        if columns.count(column) > 1:
            raise DataError(f"{file} has the column '{column}' twice")
    return columns


def _row(file: Path, number: int, record: dict[str, str]) -> Row:
    where = f"{file}, row {number}"
    for column in NEEDED:
        if not record[column]:
            raise DataError(f"{where}: the {column} is empty")
    split = record.get("split", "")
    if split and split not in SIDES:
        raise DataError(f"{where}: split must be train, validation or test", got=split)
    marks = {}
    for column in ("is_query", "is_gallery"):
        text = record.get(column, "")
        if text.lower() not in _BOOLEANS:
            raise DataError(f"{where}: {column} must be true, false, 1, 0, yes, no or empty", got=text)
        marks[column] = _BOOLEANS[text.lower()]
    path = os.path.normpath(record["path"])
    return Row(number, path, record["label"], split, marks["is_query"], marks["is_gallery"], record.get("category", ""))


def _without_repeated(file: Path, rows: list[Row]) -> list[Row]:
    # An image listed twice would retrieve itself and count as a hit.
    first: dict[str, Row] = {}
    for row in rows:
        earlier = first.setdefault(row.path, row)
        for column in ("label", *OPTIONAL):
            one, other = getattr(earlier, column), getattr(row, column)
            if one != other:
                raise DataError(
                    f"{file}, rows {earlier.number} and {row.number}: '{row.path}' has two values of {column}, "
                    f"'{one}' and '{other}'",
                    hint="List each image once.",
                )
    return list(first.values())


def _check_files(file: Path, image_root: Path, rows: list[Row]) -> None:
    missing = [row for row in rows if "\0" in row.path or not os.path.isfile(image_root / row.path)]
    if missing:
        others = f" (and {len(missing) - 1:,} other rows)" if len(missing) > 1 else ""
        raise DataError(
            f"{file}, row {missing[0].number}: no file {image_root / missing[0].path}{others}",
            hint="Paths are relative to the CSV's folder; set root=FOLDER if they are not.",
        )


def _complete_column(file: Path, rows: list[Row], column: str) -> list[str] | None:
    values = [getattr(row, column) for row in rows]
    if not any(values):
        return None
    if "" in values:
        where = f"{file}, row {rows[values.index('')].number}"
        raise DataError(f"{where}: the {column} is empty", hint=f"Set the {column} in every row or in none.")
    return values
