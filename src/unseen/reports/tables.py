"""The rankings as CSV, Markdown and LaTeX, each with its own way of keeping text text."""

import csv
import io
import math
from collections.abc import Callable, Sequence
from pathlib import Path

from unseen.analyses.shift.ladder_results import (
    AGGREGATED_COLUMNS,
    RUNG_COLUMNS,
    aggregated_rows,
    ladder_results,
    rung_rows,
)
from unseen.analyses.shift.structure_trends import COLUMNS as STRUCTURE_COLUMNS
from unseen.analyses.shift.structure_trends import relation_row, relations
from unseen.analyses.shift.transfer import COLUMNS as TRANSFER_COLUMNS
from unseen.analyses.shift.transfer import transfer_rows
from unseen.core.csv_table import csv_of, csv_text
from unseen.core.files import write_text
from unseen.core.text import plain
from unseen.studies.results.content import Content
from unseen.studies.results.paired import Paired, paired_differences, paired_texts
from unseen.studies.results.ranking import Entry, Ranking, are_percentages, cell, rankings, score_names

_PARTS = ("mean", "standard deviation", "interval low", "interval high", "seeds")
_PAIRED_PARTS = ("difference", "difference low", "difference high", "difference standard deviation", "difference seeds")
NOTE = "Mean ± population standard deviation over seeds."
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
    """One line for each data set, split and method, numbers in full; `rank` is empty where nothing was ranked.

    With a baseline its name follows, then the paired differences to it; where one is left out the note says why.
    """
    scores = score_names(content)
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    tables = [(table, paired_differences(content, table)) for table in rankings(content)]
    compared = tuple(dict.fromkeys(score for _, paired in tables if paired for score in paired.scores))
    heads = [f"{csv_text(score)} {part}" for score in scores for part in _PARTS]
    heads += ["baseline"] if content.baseline else []
    heads += [f"{csv_text(score)} {part}" for score in compared for part in _PAIRED_PARTS]
    writer.writerow(["data", "split", "rank", "method", "trained", "seeds", *heads, "note"])
    for table, paired in tables:
        for entry in table.entries:
            numbers: list[str] = []
            for score in scores:
                summary = entry.summary(score)
                mean = "" if math.isnan(summary.mean) else repr(summary.mean)
                deviation = "" if summary.deviation is None else repr(summary.deviation)
                interval = entry.interval(score) or ("", "")
                numbers += [mean, deviation, *(end if end == "" else repr(end) for end in interval)]
                numbers.append(str(len(summary.values)))
            if paired is not None:
                numbers += [csv_text(paired.baseline), *_paired_numbers(paired, entry, compared)]
            labels = [csv_text(table.data), csv_text(table.split), str(entry.rank or ""), csv_text(entry.method)]
            notes = [_why_unranked(table)] if table.differences else []
            notes += [f"Difference: {why}"] if paired is not None and (why := paired.why_left_out(entry)) else []
            note = csv_text("; ".join(notes))
            writer.writerow([*labels, "yes" if entry.is_trained else "no", entry.seeds, *numbers, note])
    return buffer.getvalue()


def _paired_numbers(paired: Paired, entry: Entry, scores: Sequence[str]) -> list[str]:
    """The cells of one method: for each score those of `_PAIRED_PARTS`, empty where there is no difference."""
    own = paired.of(entry)
    numbers: list[str] = []
    for score in scores:
        if own is None or score not in own.scores:
            numbers += [""] * len(_PAIRED_PARTS)
            continue
        found = own.scores[score]
        deviation = "" if found.deviation is None else repr(found.deviation)
        numbers += [repr(found.value), repr(found.low), repr(found.high), deviation, str(len(found.by_seed))]
    return numbers


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


def _paired_lines(content: Content, paired: Paired, escape: Callable[[str], str]) -> list[list[str]]:
    """Head and rows of the paired differences: method, "difference ± deviation (interval) verdict", seeds."""
    percent = are_percentages(content)
    heads = [escape(score) + (" (points)" if percent[score] else "") for score in paired.scores]
    lines = [["method", *heads, "seeds"]]
    for own in paired.entries:
        cells = []
        for score in paired.scores:
            found = own.scores.get(score)
            if found is None:
                cells.append("–")
                continue
            value, deviation, interval = paired_texts(found, percent=percent[score])
            cells.append(" ".join(filter(None, [f"{value} ± {deviation} ({interval})", found.verdict])))
        lines.append([escape(own.entry.method), *cells, str(len(own.seeds))])
    return lines


def to_markdown(content: Content) -> str:
    """A heading and a table for each data set and split; un-trained methods have no rank."""
    parts = []
    for table in rankings(content):
        head, *rows = _lines(content, table, markdown_text, "**%s**", "±")
        parts.append(f"## {markdown_text(table.data)} / {markdown_text(table.split)}\n")
        if table.differences:
            parts.append(f"**{markdown_text(_why_unranked(table))}**\n")
        parts.append(_markdown_table(head, rows, ["---:", "---"]))
        paired = paired_differences(content, table)
        if paired is not None:
            parts.append(f"### Paired difference to {markdown_text(paired.baseline)}\n")
            if paired.entries:
                head, *rows = _paired_lines(content, paired, markdown_text)
                parts.append(_markdown_table(head, rows, ["---"]))
                parts.append(markdown_text(paired.words) + "\n")
            parts.extend(
                f"Left out: {markdown_text(method)}: {markdown_text(why)}\n" for method, why in paired.left_out
            )
    return "\n".join([*parts, NOTE + "\n"])


def _markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]], rule: Sequence[str]) -> str:
    """A table whose first columns have these rules; the others are numbers."""
    rules = [*rule, *["---:"] * (len(head) - len(rule))]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, rules, *rows)) + "\n"


def to_latex(content: Content) -> str:
    """A tabular for each data set and split, with a rule above the un-trained methods; needs only LaTeX itself."""
    parts = ["% " + NOTE.replace("±", "+-")]
    for table in rankings(content):
        head, *rows = _lines(content, table, latex_text, r"\textbf{%s}", r"$\pm$")
        comments = [f"{table.data} / {table.split}"] + ([_why_unranked(table)] if table.differences else [])
        parts.extend("% " + plain(comment) for comment in comments)
        parts += _latex_table("rl", head, [rows[: len(table.trained)], rows[len(table.trained) :]])
        paired = paired_differences(content, table)
        if paired is not None:
            comments = [f"{table.data} / {table.split}: paired difference to {paired.baseline}"]
            comments += [paired.words.replace("±", "+-")] if paired.entries else []
            comments += [f"Left out: {method}: {why}" for method, why in paired.left_out]
            parts.extend("% " + plain(comment) for comment in comments)
        if paired is not None and paired.entries:
            # LaTeX itself has signs for these in formulas only.
            lines = _paired_lines(content, paired, latex_text)
            lines = [[cell.replace("±", r"$\pm$").replace("−", "$-$") for cell in line] for line in lines]
            parts += _latex_table("l", lines[0], [lines[1:]])
    return "\n".join(parts)


def _latex_table(first: str, head: Sequence[str], groups: Sequence[Sequence[Sequence[str]]]) -> list[str]:
    """A tabular whose first columns are as stated and the others numbers, with a rule between groups of rows."""
    parts = [
        r"\begin{tabular}{" + first + "r" * (len(head) - len(first)) + "}\n\\hline",
        _latex_line(head) + r" \hline",
    ]
    for number, group in enumerate(group for group in groups if group):
        parts.extend([r"\hline"] if number else [])
        parts.extend(map(_latex_line, group))
    parts.append("\\hline\n\\end{tabular}\n")
    return parts


def _latex_line(cells: Sequence[str]) -> str:
    # A cell that starts with [ would be taken for an option of the line break before it.
    return " & ".join(f"{{{text}}}" if text.startswith(("[", "*")) else text for text in cells) + r" \\"


def write_tables(content: Content, folder: Path) -> tuple[Path, ...]:
    """Write ranking.csv, ranking.md and ranking.tex into a folder; gives their paths.

    A study over a ladder has generalisation.csv (every rung), aggregated.csv and structure.csv besides, one over pairs
    of data sets transfer.csv.
    """
    made = {"ranking.csv": to_csv(content), "ranking.md": to_markdown(content), "ranking.tex": to_latex(content)}
    found = ladder_results(content)
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
