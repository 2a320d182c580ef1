"""A table of images: a CSV file with `path,label`, in the columns that open-metric-learning users have."""

import csv
import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from unseen.core.errors import DataError
from unseen.core.registry import data, nearest
from unseen.data.catalogue import (
    SIDES,
    Catalogue,
    apply_small_class_policy,
    groups_of_classes,
    sort_class_names,
)
from unseen.data.item_readers import ImageFiles

NEEDED = ("path", "label")
OPTIONAL = ("split", "is_query", "is_gallery", "category")

_BOOLEANS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False, "": False}
# Data frames write whole numbers beside missing ones as 1.0, and missing ones as None or nan.
_BOOLEANS |= {"1.0": True, "0.0": False, "none": False, "nan": False}


@dataclass(frozen=True)
class Row:
    """One line of the table, checked; `number` counts from 1 with the header, as a spreadsheet does."""

    number: int
    path: str
    label: str
    split: str
    is_query: bool
    is_gallery: bool
    category: str


@data("table")
def table(
    path: str, *, root: str | None = None, small_classes: Literal["refuse", "drop", "keep"] = "refuse"
) -> Catalogue:
    """A CSV file with columns path, label and, if wanted, split, is_query, is_gallery, category.

    ===========  =========================================================================================
    path         of an image, relative to the CSV's own folder or to `root`
    label        any text or number; names the class
    split        train, validation or test; a table without test rows is read as open-metric-learning
                 does: its validation rows are the test side
    is_query,    true, false, 1, 0, yes, no; empty means false
    is_gallery
    category     the group of the class
    ===========  =========================================================================================

    Other columns (bounding boxes, say) are ignored, and the notes say so. A row that stands twice counts once.

    Raises:  `DataError` with the row's number for everything that is missing, contradicts itself or cannot be read
    """
    file = Path(path).expanduser()
    place = Path(root).expanduser() if root is not None else file.parent
    records, columns, notes = _records(file)
    rows, repeated = _without_repeated(file, [_row(file, number, record) for number, record in records])
    _check_files(file, place, rows)
    if repeated:
        notes.append(f"repeated rows left out: {repeated:,}")
    kept, small = apply_small_class_policy(str(file), [row.label for row in rows], small_classes)
    notes += small
    rows = [rows[position] for position in kept]

    classes = [row.label for row in rows]
    class_names = sort_class_names(set(classes))
    label_of = {name: label for label, name in enumerate(class_names)}
    split = _column_of_words(file, rows, "split") if "split" in columns else None
    if split is not None and "test" not in split and "validation" in split:
        split = ["test" if side == "validation" else side for side in split]
        notes.append("the table has no test rows, so its validation rows are the test side")
    groups = _column_of_words(file, rows, "category") if "category" in columns else None
    marks = {
        key: np.array([getattr(row, key) for row in rows])
        for key in ("is_query", "is_gallery")
        if key in columns and any(getattr(row, key) for row in rows)
    }
    return Catalogue(
        name=file.stem,
        reader=ImageFiles(place, tuple(row.path for row in rows)),
        labels=np.array([label_of[name] for name in classes], np.int64),
        class_names=class_names,
        ids=tuple(row.path for row in rows),
        class_groups=groups_of_classes(str(file), class_names, classes, groups) if groups else None,
        fixed_split=np.array(split) if split else None,
        is_query=marks.get("is_query"),
        is_gallery=marks.get("is_gallery"),
        notes=tuple(notes),
    )


def read_text(file: Path) -> str:
    """The text of a UTF-8 file, with or without a byte-order mark; `DataError` names the line that is not UTF-8."""
    try:
        content = file.read_bytes()
        return content.decode("utf-8-sig")
    except FileNotFoundError:
        raise DataError(f"no file {file}") from None
    except OSError as problem:
        raise DataError(f"{file} cannot be read: {problem.strerror}") from None
    except UnicodeDecodeError as problem:
        line = content[: problem.start].count(b"\n") + 1
        raise DataError(f"{file}, row {line}: the text is not UTF-8", hint="Use a CSV saved as UTF-8.") from None


def _records(file: Path) -> tuple[list[tuple[int, dict[str, str]]], list[str], list[str]]:
    reader = csv.reader(io.StringIO(read_text(file), newline=""), strict=True)
    records: list[tuple[int, dict[str, str]]] = []
    columns: list[str] = []
    number = 0
    try:
        for number, values in enumerate(reader, start=1):
            if number == 1:
                columns = _header(file, values)
            elif values:
                if len(values) != len(columns):
                    raise DataError(
                        f"{file}, row {number}: the header has {len(columns)} columns, the row has {len(values)}"
                    )
                records.append((number, {key: text.strip() for key, text in zip(columns, values, strict=True)}))
    except csv.Error as problem:
        raise DataError(f"{file}, row {number + 1}: {problem}") from None
    if not columns:
        raise DataError(f"{file} is empty", hint="Use a CSV with the header path,label.")
    if not records:
        raise DataError(f"{file} has a header and no rows")
    others = [column for column in columns if column not in NEEDED + OPTIONAL and column]
    return records, columns, [f"columns ignored: {', '.join(others)}"] if others else []


def _header(file: Path, values: list[str]) -> list[str]:
    columns = [value.strip() for value in values]
    for column in NEEDED:
        if column not in columns:
            commas = " separated by commas" if len(columns) == 1 and any(mark in columns[0] for mark in ";\t|") else ""
            raise DataError(
                f"{file} has no column '{column}'{nearest(column, columns)}",
                got=", ".join(columns),
                hint=f"Use a header with path,label{commas}.",
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


def _without_repeated(file: Path, rows: list[Row]) -> tuple[list[Row], int]:
    # An image that stands twice would find itself and be counted as found.
    first: dict[str, Row] = {}
    for row in rows:
        known = first.setdefault(row.path, row)
        if known is not row:
            for column in ("label", *OPTIONAL):
                one, other = getattr(known, column), getattr(row, column)
                if one != other:
                    raise DataError(
                        f"{file}, rows {known.number} and {row.number}: '{row.path}' has two values of {column}, "
                        f"'{one}' and '{other}'",
                        hint="Use one row for each image.",
                    )
    return list(first.values()), len(rows) - len(first)


def _check_files(file: Path, place: Path, rows: list[Row]) -> None:
    missing = [row for row in rows if "\0" in row.path or not os.path.isfile(place / row.path)]
    if missing:
        others = f" (and {len(missing) - 1:,} other rows)" if len(missing) > 1 else ""
        raise DataError(
            f"{file}, row {missing[0].number}: no file {place / missing[0].path}{others}",
            hint="Use paths relative to the CSV's folder, or root=....",
        )


def _column_of_words(file: Path, rows: list[Row], column: str) -> list[str] | None:
    words = [getattr(row, column) for row in rows]
    if not any(words):
        return None
    for row, word in zip(rows, words, strict=True):
        if not word:
            raise DataError(
                f"{file}, row {row.number}: the {column} is empty", hint=f"Use a {column} in every row, or in none."
            )
    return words
