"""The rankings as CSV, Markdown and LaTeX, each with its own way of keeping text text."""

import csv
import io
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from unseen.core.files import write_text
from unseen.reports.content import Content
from unseen.reports.generalisation import AGGREGATED_COLUMNS, RUNG_COLUMNS, aggregated_rows, climbs, rung_rows
from unseen.reports.ranking import Ranking, are_percentages, cell, rankings, score_names
from unseen.reports.structure import COLUMNS as STRUCTURE_COLUMNS
from unseen.reports.structure import relation_row, relations
from unseen.reports.text import plain
from unseen.reports.transfer import COLUMNS as TRANSFER_COLUMNS
from unseen.reports.transfer import transfer_rows

_PARTS = ("mean", "standard deviation", "interval low", "interval high", "seeds")
NOTE = "Mean ± population standard deviation over seeds."
FORMULA_STARTS = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
MARKDOWN_SIGNS = "\\`*_{}[]()#+!|~:$"
LATEX_SIGNS = {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    **{sign: "\\" + sign for sign in "{}$&#_%"},
}


def csv_text(text: str) -> str:
    """A text that no spreadsheet takes for a formula.

    >>> csv_text("=1+1"), csv_text("margin")
    ("'=1+1", 'margin')
    """
    text = plain(text)
    return "'" + text if text.lstrip().startswith(FORMULA_STARTS) else text


def csv_of(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table of texts and numbers; numbers in full.

    >>> csv_of(["method", "rho"], [["=margin", 0.1]])
    "method,rho\\n'=margin,0.1\\n"
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    for row in (heads, *rows):
        writer.writerow([csv_text(value) if isinstance(value, str) else repr(value) for value in row])
    return buffer.getvalue()


def markdown_text(text: str) -> str:
    """A text without marks, links or elements of its own, on one line."""
    text = plain(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join("\\" + letter if letter in MARKDOWN_SIGNS else letter for letter in text)


def latex_text(text: str) -> str:
    """A text in which no sign means anything to LaTeX."""
    return "".join(LATEX_SIGNS.get(letter, letter) for letter in plain(text))


def _why_unranked(table: Ranking) -> str:
    fields = ", ".join(" › ".join(difference.path) for difference in table.differences)
    return f"Not ranked: unlike protocols, rows differ in {fields}"


def to_csv(content: Content) -> str:
    """One line for each data set, split and method, numbers in full; `rank` is empty where nothing was ranked."""
    scores = score_names(content)
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    heads = [f"{csv_text(score)} {part}" for score in scores for part in _PARTS]
    writer.writerow(["data", "split", "rank", "method", "trained", "seeds", *heads, "note"])
    for table in rankings(content):
        for entry in table.entries:
            numbers: list[str] = []
            for score in scores:
                summary = entry.summary(score)
                mean = "" if math.isnan(summary.mean) else repr(summary.mean)
                deviation = "" if summary.deviation is None else repr(summary.deviation)
                interval = entry.interval(score) or ("", "")
                numbers += [mean, deviation, *(end if end == "" else repr(end) for end in interval)]
                numbers.append(str(len(summary.values)))
            labels = [csv_text(table.data), csv_text(table.split), str(entry.rank or ""), csv_text(entry.method)]
            note = csv_text(_why_unranked(table)) if table.differences else ""
            writer.writerow([*labels, "yes" if entry.is_trained else "no", entry.seeds, *numbers, note])
    return buffer.getvalue()


def _lines(content: Content, table: Ranking, escape: Callable[[str], str], bold: str, sign: str) -> list[list[str]]:
    """Head and rows of one ranking: rank, method, "mean ± deviation" of each score, seeds."""
    percent = are_percentages(content)
    unit = escape("%")
    heads = [escape(score) + (f" ({unit})" if percent[score] else "") for score in table.scores]
    lines = [[escape("#"), "method", *heads, "seeds"]]
    for entry in table.entries:
        cells = []
        for score in table.scores:
            mean, deviation = cell(entry, score, percent=percent[score])
            is_best = entry.is_trained and entry.summary(score).mean == table.best.get(score)
            cells.append(f"{bold % mean if is_best else mean} {sign} {deviation}" if mean != "–" else mean)
        lines.append([str(entry.rank or "–"), escape(entry.method), *cells, str(entry.seeds)])
    return lines


def to_markdown(content: Content) -> str:
    """A heading and a table for each data set and split; un-trained methods have no rank."""
    parts = []
    for table in rankings(content):
        head, *rows = _lines(content, table, markdown_text, "**%s**", "±")
        parts.append(f"## {markdown_text(table.data)} / {markdown_text(table.split)}\n")
        if table.differences:
            parts.append(f"**{markdown_text(_why_unranked(table))}**\n")
        rule = ["---:", "---", *["---:"] * (len(head) - 2)]
        parts.append("\n".join("| " + " | ".join(cells) + " |" for cells in (head, rule, *rows)) + "\n")
    return "\n".join([*parts, NOTE + "\n"])


def to_latex(content: Content) -> str:
    """A tabular for each data set and split, with a rule above the un-trained methods; needs only LaTeX itself."""
    parts = ["% " + NOTE.replace("±", "+-")]
    for table in rankings(content):
        head, *rows = _lines(content, table, latex_text, r"\textbf{%s}", r"$\pm$")
        comments = [f"{table.data} / {table.split}"] + ([_why_unranked(table)] if table.differences else [])
        parts.extend("% " + plain(comment) for comment in comments)
        parts.append(r"\begin{tabular}{rl" + "r" * (len(head) - 2) + "}\n\\hline")
        parts.append(_latex_line(head) + r" \hline")
        parts.extend(map(_latex_line, rows[: len(table.trained)]))
        if table.trained and table.untrained:
            parts.append(r"\hline")
        parts.extend(map(_latex_line, rows[len(table.trained) :]))
        parts.append("\\hline\n\\end{tabular}\n")
    return "\n".join(parts)


def _latex_line(cells: Sequence[str]) -> str:
    # A cell that starts with [ would be taken for an option of the line break before it.
    return " & ".join(f"{{{text}}}" if text.startswith(("[", "*")) else text for text in cells) + r" \\"


def write_tables(content: Content, folder: Path) -> tuple[Path, ...]:
    """Write ranking.csv, ranking.md and ranking.tex into a folder; gives their paths.

    A study over a ladder has generalisation.csv (every rung), aggregated.csv and structure.csv besides, one over pairs
    of data sets transfer.csv.
    """
    made = {"ranking.csv": to_csv(content), "ranking.md": to_markdown(content), "ranking.tex": to_latex(content)}
    found = climbs(content)
    related = [relation_row(climb, each) for climb in found for each in relations(content, climb)]
    for name, heads, rows in (
        ("generalisation.csv", RUNG_COLUMNS, [row for climb in found for row in rung_rows(climb, climb.scores)]),
        (
            "aggregated.csv",
            AGGREGATED_COLUMNS,
            [row for climb in found for row in aggregated_rows(climb, climb.scores)],
        ),
        ("structure.csv", STRUCTURE_COLUMNS, related),
        ("transfer.csv", TRANSFER_COLUMNS, transfer_rows(content)),
    ):
        if rows:
            made[name] = csv_of(heads, rows)
    for name, text in made.items():
        write_text(folder / name, text)
    return tuple(folder / name for name in made)
