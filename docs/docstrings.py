"""Parse the docstrings of components: summary, formulas, symbols, remarks and sections."""

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
    """The parts of a component's docstring."""

    summary: str
    formulas: list[str] = field(default_factory=list)
    symbols: list[tuple[list[str], str]] = field(default_factory=list)
    """Rows of the table of symbols: the names that share a row, and their meaning."""
    remarks: list[str] = field(default_factory=list)
    sections: dict[str, str] = field(default_factory=dict)


def parse(text: str) -> Docstring:
    """Parse a docstring.

    Raises:     ValueError for a table that does not end, and for a section that occurs twice
    """
    first, *lines = inspect.cleandoc(text).split("\n")
    parsed = Docstring(first)
    while lines:
        line = lines.pop(0)
        section = _SECTION.fullmatch(line)
        if not line.strip():
            continue
        if line.startswith(".. math::"):
            parsed.formulas.append(_joined(line.removeprefix(".. math::"), lines))
        elif _BORDER.fullmatch(line):
            parsed.symbols += _rows(line, lines)
        elif section:
            name = section[1]
            if name in parsed.sections:
                raise ValueError(f"the section {name} occurs twice")
            parsed.sections[name] = _joined(section[2], lines)
        else:
            remark = [line]
            while lines and lines[0].strip():
                remark.append(lines.pop(0))
            parsed.remarks.append(" ".join(part.strip() for part in remark))
    return parsed


def _joined(start: str, lines: list[str]) -> str:
    """The text joined with the indented lines that follow it, which are removed from `lines`."""
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
