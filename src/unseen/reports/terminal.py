"""The readable tables at the end of a command."""

import math
from collections.abc import Mapping, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from unseen.analyses.shift.ladder_results import LadderResult, ladder_results
from unseen.core.text import cut, number, plain
from unseen.reports.page import columns
from unseen.studies.results.content import Content
from unseen.studies.results.paired import PairedComparison, paired_differences, paired_texts
from unseen.studies.results.ranking import MISSING, Ranking, are_percentages, rankings

# Widths in characters.
_FRAME = 18  # rank, seeds and the lines between columns
_COLUMN = 15  # a score with its deviation
_PAIRED_COLUMN = 26  # a difference with its interval below
_AGGREGATED = 36  # the aggregate, the ranks on the first and last rung, and the lines between columns
_RUNG = 10  # a score on a rung


def terminal_table(content: Content, width: int = 80) -> list[RenderableType]:
    """One table for each data set and split, a line where rows were not ranked, a line for each failed cell.

    With a baseline the paired differences to it follow each table, with a line for each method that is left out.
    The rungs of a ladder have one table together: the aggregated score, then as many rungs as fit.
    Names of methods stay whole: where the terminal is narrow, scores are left out from the right.
    """
    percent = are_percentages(content)
    ladders = ladder_results(content)
    parts: list[RenderableType] = [_ladder_table(ladder, percent[ladder.main_score], width) for ladder in ladders]
    on_ladders = {(ladder.data, rung.split) for ladder in ladders for rung in ladder.rungs}
    for table in rankings(content):
        if (table.data, table.split) in on_ladders and not table.differences:
            continue
        parts.append(_ranking_table(table, percent, width))
        if table.pretraining:
            parts.append(Text(_short(table.why_apart, 400), style="dim"))
        if table.differences:
            parts.append(Text(_short(table.why_unranked, 400), style="yellow"))
        paired = paired_differences(content, table)
        if paired is not None and paired.entries:
            parts += [_paired_table(paired, percent, width), Text(plain(paired.explanation), style="dim")]
        for method, why in () if paired is None else paired.left_out:
            parts.append(Text(f"no paired difference: {_short(method)}: {_short(why, 400)}", style="yellow"))
    for failed in content.failed:
        labels = " / ".join(_short(label, 40) for label in failed.labels)
        parts.append(Text(f"failed: {labels}: {_short(failed.sentence, 400)}", style="red"))
    return parts


def _short(text: str, longest: int = 60) -> str:
    return cut(plain(text), longest)


def _table(title: str) -> Table:
    # Text objects, not strings: rich would read [red] in a name as markup.
    return Table(title=Text(title, style="bold"), title_justify="left", header_style="bold")


def _add_columns(table: Table, methods: Sequence[str], width: int) -> int:
    """Add the column of method names and return the characters that remain for scores."""
    longest = min(max(len(_short(method)) for method in methods), width // 2)
    table.add_column("method", min_width=longest)
    return width - longest


def _add_scores(table: Table, scores: Sequence[str], units: Mapping[str, bool], unit: str) -> None:
    for score in scores:
        text = Text(_short(score, 20) + (unit if units[score] else ""))
        table.add_column(text, justify="right", no_wrap=True)
    table.add_column("seeds", justify="right")


def _ranking_table(ranking: Ranking, percent: Mapping[str, bool], width: int) -> Table:
    table = _table(f"{_short(ranking.data)} / {_short(ranking.split)}")
    table.add_column("#", justify="right", style="dim")
    room = _add_columns(table, [entry.method for entry in ranking.entries], width)
    shown = columns(ranking.scores)[: max(1, (room - _FRAME) // _COLUMN)]
    _add_scores(table, shown, percent, " %")
    for position, entry in enumerate(ranking.entries):
        cells = []
        for score in shown:
            mean, deviation = entry.summary(score).texts(percent=percent[score])
            text = Text(mean, style="bold green" if ranking.is_best(entry, score) else "")
            cells.append(text if mean == MISSING else text.append(f" ± {deviation}", style="dim"))
        name = Text(_short(entry.method), style="" if entry.is_trained else "italic")
        is_last_trained = position == len(ranking.trained) - 1 and bool(ranking.untrained)
        table.add_row(str(entry.rank or ""), name, *cells, str(entry.seeds), end_section=is_last_trained)
    return table


def _paired_table(paired: PairedComparison, percent: Mapping[str, bool], width: int) -> Table:
    table = _table(f"paired difference to {_short(paired.baseline)}")
    room = _add_columns(table, [own.entry.method for own in paired.entries], width)
    shown = paired.scores[: max(1, (room - _FRAME) // _PAIRED_COLUMN)]
    _add_scores(table, shown, percent, " points")
    styles = {"better": "green", "worse": "red", "": ""}
    for own in paired.entries:
        cells = []
        for score in shown:
            one = own.scores.get(score)
            if one is None:
                cells.append(Text(MISSING))
                continue
            value, deviation, interval = paired_texts(one, percent=percent[score])
            text = Text(" ".join(filter(None, [value, one.verdict])), style=styles[one.verdict])
            cells.append(text.append(f" ± {deviation}\n{interval}", style="dim"))
        table.add_row(Text(_short(own.entry.method)), *cells, str(len(own.seeds)))
    return table


def _ladder_table(ladder: LadderResult, percent: bool, width: int) -> Table:
    score = ladder.main_score
    what = "ladder by groups" if ladder.is_by_groups else f"ladder {_short(ladder.ladder, 16)}"
    table = _table(f"{_short(ladder.data)} / {what}: {_short(score, 20)}" + (" %" if percent else ""))
    room = _add_columns(table, [curve.method for curve in ladder.curves], width)
    table.add_column("aggregated", justify="right", no_wrap=True)
    table.add_column("rank", justify="right", no_wrap=True)
    shown = _evenly(len(ladder.rungs), (room - _AGGREGATED) // _RUNG)
    for position in shown:
        rung = ladder.rungs[position]
        head = f"{_short(rung.group, _RUNG)}\n" if rung.group else f"{rung.number}: "
        table.add_column(Text(f"{head}{rung.class_distance:.3g}"), justify="right", no_wrap=True)
    histories = ladder.rank_histories(score)
    for position, curve in enumerate(ladder.curves):
        mean, deviation = curve.aggregated(score, ladder.distances()).texts(percent=percent)
        total = Text(mean)
        if deviation != MISSING:
            total.append(f" ± {deviation}", style="dim")
        ranks = histories[position].ranks if position in histories else ()
        means = curve.means(score)
        cells = [number(means[index], percent=percent) if math.isfinite(means[index]) else MISSING for index in shown]
        name = Text(_short(curve.method), style="" if curve.is_trained else "italic")
        table.add_row(name, total, f"{ranks[0]:g} → {ranks[-1]:g}" if ranks else MISSING, *cells)
    return table


def _evenly(count: int, most: int) -> list[int]:
    """At most so many positions of `count`, evenly spread, with the first and the last."""
    most = max(2, min(count, most))
    return sorted({round(position * (count - 1) / (most - 1)) for position in range(most)})
