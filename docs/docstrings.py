"""Docstrings of components taken apart: summary, formulas, symbols, remarks and the sections of the house style."""

import inspect
import re
from dataclasses import dataclass, field

SECTIONS = ("Shape", "Primal", "Gradient", "Empty", "Reference", "Differs", "Raises")

_SECTION = re.compile(rf"({'|'.join(SECTIONS)}):\s+(.*)")
_BORDER = re.compile(r"=+\s+=+")
_COMMA = re.compile(r", (?![^(]*\))")
"""A comma between names, not one between the arguments of a function."""


@dataclass
class Docstring:
    """What a component says of itself."""

    summary: str
    formulas: list[str] = field(default_factory=list)
    symbols: list[tuple[list[str], str]] = field(default_factory=list)
    """Rows of the table of symbols: the names that share a row, and what it says of them."""
    remarks: list[str] = field(default_factory=list)
    sections: dict[str, str] = field(default_factory=dict)


def parse(text: str) -> Docstring:
    """The parts of a docstring in the pattern of the house style.

    Raises:     ValueError for a table that does not end, and for a section that stands twice
    """
    first, *lines = inspect.cleandoc(text).split("\n")
    found = Docstring(first)
    while lines:
        line = lines.pop(0)
        section = _SECTION.fullmatch(line)
        if not line.strip():
            continue
        if line.startswith(".. math::"):
            found.formulas.append(_joined(line.removeprefix(".. math::"), lines))
        elif _BORDER.fullmatch(line):
            found.symbols += _rows(line, lines)
        elif section:
            name = section[1]
            if name in found.sections:
                raise ValueError(f"the section {name} stands twice")
            found.sections[name] = _joined(section[2], lines)
        else:
            remark = [line]
            while lines and lines[0].strip():
                remark.append(lines.pop(0))
            found.remarks.append(" ".join(part.strip() for part in remark))
    return found


def _joined(start: str, lines: list[str]) -> str:
    """The text with the indented lines that follow it, which are taken away."""
    parts = [start.strip()]
    while lines and lines[0].startswith(" "):
        parts.append(lines.pop(0).strip())
    return " ".join(part for part in parts if part)


def _rows(border: str, lines: list[str]) -> list[tuple[list[str], str]]:
    """The rows up to the closing border; a row whose first column is empty continues the one above."""
    column = border.index("=", border.index(" "))
    rows: list[tuple[list[str], str]] = []
    while lines:
        line = lines.pop(0)
        if _BORDER.fullmatch(line):
            return rows
        names, meaning = line[:column].strip(), line[column:].strip()
        if names:
            rows.append((_COMMA.split(names), meaning))
        else:
            rows[-1] = (rows[-1][0], f"{rows[-1][1]} {meaning}")
    raise ValueError("the table of symbols does not end")
