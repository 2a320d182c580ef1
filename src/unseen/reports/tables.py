"""The rankings as CSV, Markdown and LaTeX files, with strings escaped for each format."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from unseen.analyses import structure
from unseen.analyses.shift import ladder_results, transfer
from unseen.core.csv_table import csv_of, csv_text
from unseen.core.files import write_text
from unseen.core.text import plain
from unseen.studies.results.content import Content
from unseen.studies.results.paired import PairedComparison, paired_differences, paired_texts
from unseen.studies.results.ranking import MISSING, MethodScores, Ranking, are_percentages, rankings, score_names

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
_PARTS = ("mean", "standard deviation", "interval low", "interval high", "seeds")
_PAIRED_PARTS = ("difference", "difference low", "difference high", "difference standard deviation", "difference seeds")


def markdown_text(text: str) -> str:
    """A string on one line without markup of its own."""
    text = plain(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join("\\" + letter if letter in MARKDOWN_SIGNS else letter for letter in text)


def latex_text(text: str) -> str:
    """A string in which no character is special to LaTeX."""
    return "".join(LATEX_SIGNS.get(letter, letter) for letter in plain(text))


@dataclass(frozen=True)
class _Markup:
    """What cells need in one format."""

    escape: Callable[[str], str]
    bold: str
    plus_minus: str
    minus: str


_MARKDOWN = _Markup(markdown_text, "**%s**", "±", "−")
_LATEX = _Markup(latex_text, r"\textbf{%s}", r"$\pm$", "$-$")


def to_csv(content: Content) -> str:
    """One line for each data set, split and method, numbers in full; `rank` is empty where nothing was ranked.

    With a baseline, its name and the paired differences to it follow; the note says why one is left out.
    """
    scores = score_names(content)
    tables = [(table, paired_differences(content, table)) for table in rankings(content)]
    compared = tuple(dict.fromkeys(score for _, paired in tables if paired for score in paired.scores))
    heads = [f"{csv_text(score)} {part}" for score in scores for part in _PARTS]
    heads += ["baseline"] if content.baseline else []
    heads += [f"{csv_text(score)} {part}" for score in compared for part in _PAIRED_PARTS]
    rows = []
    for table, paired in tables:
        for entry in table.entries:
            row: list[object] = [table.data, table.split, entry.rank, entry.method]
            row += ["yes" if entry.is_trained else "no", entry.seeds]
            for score in scores:
                summary = entry.summary(score)
                row += [None if math.isnan(summary.mean) else summary.mean, summary.deviation]
                row += [*(entry.interval(score) or (None, None)), len(summary.values)]
            notes = [table.why_apart, table.why_unranked]
            if paired is not None:
                row += [paired.baseline, *_paired_numbers(paired, entry, compared)]
                why = "; ".join(why for method, why in paired.left_out if method == entry.method)
                notes.append(why and f"Difference: {why}")
            rows.append([*row, "; ".join(filter(None, notes))])
    return csv_of(["data", "split", "rank", "method", "trained", "seeds", *heads, "note"], rows)


def _paired_numbers(paired: PairedComparison, entry: MethodScores, scores: Sequence[str]) -> list[object]:
    """The cells of one method: for each score those of `_PAIRED_PARTS`, empty where there is no difference."""
    differences = next((own.scores for own in paired.entries if own.entry is entry), {})
    numbers: list[object] = []
    for score in scores:
        one = differences.get(score)
        empty = [None] * len(_PAIRED_PARTS)
        numbers += [one.value, one.low, one.high, one.deviation, len(one.by_seed)] if one else empty
    return numbers


def _lines(content: Content, table: Ranking, markup: _Markup) -> list[list[str]]:
    """Head and rows of one ranking: rank, method, "mean ± deviation" of each score, seeds."""
    percent = are_percentages(content)
    unit = f" ({markup.escape('%')})"
    heads = [markup.escape(score) + (unit if percent[score] else "") for score in table.scores]
    lines = [[markup.escape("#"), "method", *heads, "seeds"]]
    for entry in table.entries:
        cells = []
        for score in table.scores:
            mean, deviation = entry.summary(score).texts(percent=percent[score])
            shown = markup.bold % mean if table.is_best(entry, score) else mean
            cells.append(mean if mean == MISSING else f"{shown} {markup.plus_minus} {deviation}")
        lines.append([str(entry.rank or MISSING), markup.escape(entry.method), *cells, str(entry.seeds)])
    return lines


def _paired_lines(content: Content, paired: PairedComparison, markup: _Markup) -> list[list[str]]:
    """Head and rows of the paired differences: method, "difference ± deviation (interval) verdict", seeds."""
    percent = are_percentages(content)
    heads = [markup.escape(score) + (" (points)" if percent[score] else "") for score in paired.scores]
    lines = [["method", *heads, "seeds"]]
    for own in paired.entries:
        cells = []
        for score in paired.scores:
            one = own.scores.get(score)
            if one is None:
                cells.append(MISSING)
                continue
            value, deviation, interval = paired_texts(one, percent=percent[score])
            text = " ".join(filter(None, [f"{value} ± {deviation} ({interval})", one.verdict]))
            cells.append(text.replace("±", markup.plus_minus).replace("−", markup.minus))
        lines.append([markup.escape(own.entry.method), *cells, str(len(own.seeds))])
    return lines


def to_markdown(content: Content) -> str:
    """A heading and a table for each data set and split; untrained methods have no rank."""
    parts = []
    for table in rankings(content):
        parts.append(f"## {markdown_text(table.data)} / {markdown_text(table.split)}\n")
        if table.pretraining:
            parts.append(f"{markdown_text(table.why_apart)}\n")
        if table.differences:
            parts.append(f"**{markdown_text(table.why_unranked)}**\n")
        parts.append(_markdown_table(_lines(content, table, _MARKDOWN), ["---:", "---"]))
        paired = paired_differences(content, table)
        if paired is not None:
            parts.append(f"### Paired difference to {markdown_text(paired.baseline)}\n")
            if paired.entries:
                parts.append(_markdown_table(_paired_lines(content, paired, _MARKDOWN), ["---"]))
                parts.append(markdown_text(paired.explanation) + "\n")
            left_out = [f"{markdown_text(method)}: {markdown_text(why)}" for method, why in paired.left_out]
            parts.extend(f"Left out: {line}\n" for line in left_out)
    return "\n".join([*parts, NOTE + "\n"])


def _markdown_table(lines: Sequence[Sequence[str]], rule: Sequence[str]) -> str:
    """A table whose first columns have these rules; the others are numbers."""
    head, *rows = lines
    rules = [*rule, *["---:"] * (len(head) - len(rule))]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, rules, *rows)) + "\n"


def to_latex(content: Content) -> str:
    """A tabular for each data set and split, with a rule above the untrained methods; needs no LaTeX package."""
    parts = ["% " + NOTE.replace("±", "+-")]
    for table in rankings(content):
        head, *rows = _lines(content, table, _LATEX)
        title = f"{table.data} / {table.split}"
        parts.extend("% " + plain(comment) for comment in (title, table.why_apart, table.why_unranked) if comment)
        parts += _latex_table("rl", head, [rows[: len(table.trained)], rows[len(table.trained) :]])
        paired = paired_differences(content, table)
        if paired is None:
            continue
        comments = [f"{title}: paired difference to {paired.baseline}"]
        comments += [paired.explanation.replace("±", "+-")] if paired.entries else []
        comments += [f"Left out: {method}: {why}" for method, why in paired.left_out]
        parts.extend("% " + plain(comment) for comment in comments)
        if paired.entries:
            head, *rows = _paired_lines(content, paired, _LATEX)
            parts += _latex_table("l", head, [rows])
    return "\n".join(parts)


def _latex_table(first: str, head: Sequence[str], groups: Sequence[Sequence[Sequence[str]]]) -> list[str]:
    """A tabular whose first columns are as stated and the others numbers, with a rule between groups of rows."""
    parts = [
        r"\begin{tabular}{" + first + "r" * (len(head) - len(first)) + "}\n\\hline",
        _latex_line(head) + r" \hline",
    ]
    for position, group in enumerate(group for group in groups if group):
        parts.extend([r"\hline"] if position else [])
        parts.extend(map(_latex_line, group))
    parts.append("\\hline\n\\end{tabular}\n")
    return parts


def _latex_line(cells: Sequence[str]) -> str:
    # A cell that starts with [ would be taken for an option of the line break before it.
    return " & ".join(f"{{{text}}}" if text.startswith(("[", "*")) else text for text in cells) + r" \\"


def write_tables(content: Content, folder: Path) -> tuple[Path, ...]:
    """Write ranking.csv, ranking.md and ranking.tex into a folder and return their paths.

    A study over a ladder also has generalisation.csv (every rung), aggregated.csv and structure.csv; one over pairs of
    data sets has transfer.csv.
    """
    files = {"ranking.csv": to_csv(content), "ranking.md": to_markdown(content), "ranking.tex": to_latex(content)}
    ladders = ladder_results.ladder_results(content)
    rungs = [row for one in ladders for row in ladder_results.rung_rows(one, one.scores)]
    aggregated = [row for one in ladders for row in ladder_results.aggregated_rows(one, one.scores)]
    related = [(one, relation) for one in ladders for relation in structure.relations(content, one)]
    for name, heads, rows in (
        ("generalisation.csv", ladder_results.RUNG_COLUMNS, rungs),
        ("aggregated.csv", ladder_results.AGGREGATED_COLUMNS, aggregated),
        ("structure.csv", structure.COLUMNS, [structure.relation_row(*pair) for pair in related]),
        ("transfer.csv", transfer.COLUMNS, list(transfer.transfer_rows(content))),
    ):
        if rows:
            files[name] = csv_of(heads, rows)
    for name, text in files.items():
        write_text(folder / name, text)
    return tuple(folder / name for name in files)
